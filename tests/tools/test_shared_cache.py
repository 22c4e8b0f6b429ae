#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight processes, released together, with one kernel cache on a network file system: cold, then warm.

The driver is a fake one that runs nothing, so right means: every process loads exactly the code that a process without a
cache loads, ends as that one does, and what is in the cache afterwards is whole. The file systems are
  - a local one under tests/support/NetworkFiles.cpp, which has the habits of NFS: old answers, lost replies, late errors;
  - SFTP over TCP by sshfs, a client of its own for each process. Skipped where sshfs or FUSE is not there.

    test_shared_cache.py 02_softmax sectile libsectile_fake_cuda.so libsectile_network_files.so [unittest options]
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOFTMAX, SECTILE, FAKE_CUDA, NETWORK_FILES = (os.path.abspath(p) for p in sys.argv[1:5])
COUNT = 8
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")


class SharedCache(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SECTILE_", "FAKECUDA_", "LD_PRELOAD"))}
        self.environment |= {"SECTILE_CUDA_LIBRARY": FAKE_CUDA, "SECTILE_LOG": "1"}
        status, self.images, said = self.ended(self.start("alone", SECTILE_CACHE="0"))
        self.status = status
        self.assertEqual(len(self.images), 1, said)
        self.assertGreater(int(self.images[0].split()[0]), 1000, "an image of some size")
        self.assertIn("disk cache off", said)

    def start(self, name, gate=None, **more):
        images = self.folder / f"images.{name}"
        images.unlink(missing_ok=True)
        command = [SOFTMAX, "--small", "--device=gpu"]
        if gate:
            command = ["sh", "-c", 'read _ < "$0"; exec "$@"', str(gate), *command]
        return subprocess.Popen(command, env={**self.environment, "FAKECUDA_IMAGES": str(images), **more}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE), images

    def ended(self, started):
        process, images = started
        _, said = process.communicate(timeout=120)
        return process.returncode, images.read_text().splitlines() if images.exists() else [], said

    def together(self, environments):
        """Runs a process per environment, released at once; gives what they said on stderr."""
        gate = self.folder / "gate"
        gate.unlink(missing_ok=True)
        os.mkfifo(gate)
        started = [self.start(str(i), gate, **e) for i, e in enumerate(environments)]
        release = os.open(gate, os.O_RDWR)  # readers now pass open, and wait for a line each
        time.sleep(0.2)
        os.write(release, b"\n" * len(started))
        texts = []
        for i, one in enumerate(started):
            status, images, said = self.ended(one)
            texts.append(said)
            self.assertEqual((status, images), (self.status, self.images), f"process {i}: {said}")
            self.assertNotIn("error", said.replace("Input/output error", ""), f"process {i}")
        os.close(release)
        return texts

    def entries(self, directory):
        """The entries of the cache that hold code, every one whole; beside them lie choices of the cost model."""
        done = subprocess.run([SECTILE, "cache", "list", "--dir", directory], capture_output=True, text=True, check=True)
        self.assertNotIn("damaged", done.stdout)
        return [f.name for f in pathlib.Path(directory).iterdir() if f.name.endswith(".kernel") and b"(choice)" not in f.read_bytes()]

    def test_habits_of_network_files(self):
        log = self.folder / "habits"
        hits = 0
        for round_ in range(5):
            cache = self.folder / f"cache{round_}"
            for phase in ("cold", "warm"):
                texts = self.together([{"SECTILE_CACHE_DIR": str(cache / "below"), "LD_PRELOAD": NETWORK_FILES,
                                        "NETWORK_FILES": str(cache), "NETWORK_FILES_LOG": str(log),
                                        "NETWORK_FILES_SEED": str(16 * round_ + 8 * (phase == "warm") + i)} for i in range(COUNT)])
                for text in texts:  # a lost reply of a rename is no failure
                    self.assertNotIn("cannot be written (No such file", text)
                hits += sum("disk hit" in text for text in texts)
            self.assertLessEqual(len(self.entries(cache / "below")), 1)
        self.assertGreater(hits, 0, "the cache is of use")
        shown = log.read_text()
        for habit in "xnahevqrd":
            self.assertIn(habit, shown, f"habits shown: {sorted(set(shown))}")
        self.assertNotIn("k", shown, "locks, links and mappings are not relied on")
        counts = ", ".join(f"{h} {shown.count(h)}" for h in sorted(set(shown)))
        print(f"habits shown: {counts}; {hits} disk hits", file=sys.stderr)

    def test_sftp(self):
        server = next((s for s in SFTP_SERVERS if os.access(s, os.X_OK)), None)
        if not server or not shutil.which("sshfs") or not os.access("/dev/fuse", os.R_OK | os.W_OK):
            self.skipTest("no sshfs, no sftp-server, or no FUSE")
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.addCleanup(lambda: [s.wait(timeout=60) for s in servers])  # they end with their clients

        servers = []

        def serve():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                servers.append(subprocess.Popen([server], stdin=client, stdout=client, stderr=subprocess.DEVNULL))
                client.close()

        threading.Thread(target=serve, daemon=True).start()
        disk = self.folder / "server"
        disk.mkdir()
        mounts = [self.folder / f"client{i}" for i in range(COUNT)]
        for mount in mounts:
            mount.mkdir()
            made = subprocess.run(["sshfs", "-o", f"directport={listener.getsockname()[1]}", f"localhost:{disk}", mount],
                                  capture_output=True, text=True, check=False, timeout=60)
            if made.returncode != 0 and mount == mounts[0]:
                self.skipTest(f"sshfs cannot mount: {made.stderr.strip()}")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.addCleanup(subprocess.run, ["fusermount3", "-u", mount], check=True)
        for _ in range(3):
            for phase in ("cold", "warm"):
                texts = self.together([{"SECTILE_CACHE_DIR": str(m / "cache")} for m in mounts])
                if phase == "warm":
                    self.assertEqual([t for t in texts if "disk hit" not in t], [])
                for text in texts:
                    self.assertNotIn("cannot be written", text)
            self.assertEqual(len(self.entries(disk / "cache")), 1)
            self.assertEqual([f for f in os.listdir(disk / "cache") if not re.fullmatch(r"[0-9a-f]+\.kernel", f)], [])
            shutil.rmtree(disk / "cache")
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
