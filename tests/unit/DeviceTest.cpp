// SPDX-License-Identifier: Apache-2.0
#include "runtime/DeviceImpl.h"
#include "runtime/Env.h"
#include "tests/support/FakeCuda.h"
#include "tests/support/InChild.h"

#include <sectile/Buffer.h>
#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Stream.h>
#include <sectile/Timer.h>

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <numeric>
#include <thread>

using namespace sectile;
using test::ChildResult;
using test::Environment;
using test::inChild;

namespace {

/// Runs in a child with the fake driver.
ChildResult withFake(Environment e, const std::function<std::string()> &work) {
  e.insert(e.begin(), {{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_DEVICE", ""}});
  return inChild(e, [&] {
    runtime::reloadEnv();
    return work();
  });
}
/// Runs in a child without any driver.
ChildResult withoutDriver(Environment e, const std::function<std::string()> &work) {
  e.insert(e.begin(), {{"SECTILE_CUDA_LIBRARY", "/nowhere/libcuda.so.1"}, {"SECTILE_DEVICE", ""}});
  return inChild(e, [&] {
    runtime::reloadEnv();
    return work();
  });
}
/// The fake driver's notes; null when it has not been opened.
FakeCudaState *fake() {
  void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<FakeCudaStateFn *>(dlsym(library, "fakeCudaState"))() : nullptr;
}
bool has(const std::string &text, const std::string &part) {
  INFO(text);
  INFO(part);
  return text.find(part) != std::string::npos;
}
std::string number(long long n) { return std::to_string(n); }

} // namespace

TEST_CASE("Device: without a driver there is the interpreter", "[runtime][device]") {
  CHECK(withoutDriver({}, [] {
          Device d = Device::best();
          return number(Device::gpuCount()) + d.name() + d.arch() + number(d.isInterpreter()) +
                 number(d.ordinal()) + number(d.properties().multiprocessors > 0) +
                 number(d.properties().memoryBytes > 0);
        }).said == "0interpreterinterpreter1-111");
  std::string none = withoutDriver({}, [] { return Device::gpu(0).name(); }).said;
  CHECK(has(none, "no usable GPU: the CUDA driver library /nowhere/libcuda.so.1 cannot be opened"));
  CHECK(has(none, "[no_gpu]"));
  CHECK(has(none, "install the NVIDIA driver, or use Device::best() or Device::interpreter()"));
  CHECK(has(none, "DeviceTest.cpp"));
}

TEST_CASE("Device: SECTILE_DEVICE", "[runtime][device]") {
  auto best = [] { return Device::best().name() + number(Device::best().ordinal()); };
  CHECK(withFake({}, best).said == "Fake H2000");
  CHECK(withFake({{"SECTILE_DEVICE", "interpreter"}}, best).said == "interpreter-1");
  CHECK(withFake({{"SECTILE_DEVICE", "gpu"}}, best).said == "Fake H2000");
  CHECK(withFake({{"SECTILE_DEVICE", "gpu:1"}, {"FAKECUDA_DEVICES", "2"}}, best).said == "Fake H2001");
  CHECK(has(withFake({{"SECTILE_DEVICE", "gpu:1"}}, best).said,
            "GPU 1 is asked for and there is 1 [gpu_range]"));
  CHECK(has(withoutDriver({{"SECTILE_DEVICE", "gpu"}}, best).said, "[no_gpu]"));
  for (const char *bad : {"cpu", "gpu:", "gpu:x", "gpu:-1", "gpu:1x", "GPU"}) {
    std::string said = withFake({{"SECTILE_DEVICE", bad}}, best).said;
    CHECK(has(said, std::string("SECTILE_DEVICE is '") + bad + "', which names no device [bad_device]"));
    CHECK(has(said, "set it to interpreter, gpu or gpu:N"));
  }
}

TEST_CASE("Device: GPUs that cannot be used are passed over, and refused when asked for",
          "[runtime][device]") {
  auto best = [] { return Device::best().name(); };
  auto gpu = [] { return Device::gpu(0).name(); };
  Environment old{{"FAKECUDA_MAJOR", "7"}, {"SECTILE_LOG", "1"}};
  ChildResult passed = withFake(old, best);
  CHECK(passed.said == "interpreter");
  CHECK(has(passed.errors, "sectile: GPU 0 is passed over: GPU 0 (Fake H200) has compute capability 7.0"));
  CHECK(has(withFake(old, gpu).said, "for which there is no target; targets are sm_80, sm_86"));
  Environment taken{{"FAKECUDA_FAIL", "cuDevicePrimaryCtxRetain=46"}};
  CHECK(withFake(taken, best).said == "interpreter");
  CHECK(has(withFake(taken, gpu).said, "GPU 0 is taken by another process: "));
  CHECK(has(withFake(taken, gpu).said, "[gpu_unavailable]"));
}

TEST_CASE("Device: the interpreter never opens the driver", "[runtime][device]") {
  CHECK(withFake({{"SECTILE_DEVICE", "interpreter"}}, [] {
          Device d = Device::best();
          Buffer<float> b(d, 3);
          Stream(d).synchronize();
          return std::string(fake() ? "opened" : "closed");
        }).said == "closed");
}

TEST_CASE("Device: properties and the compile target come from the driver and the table",
          "[runtime][device]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          const DeviceProperties &p = d.properties();
          return d.arch() + " " + number(p.computeMajor) + "." + number(p.computeMinor) + " " +
                 number(p.multiprocessors) + " " + number(p.sharedBytesPerBlock) + " " +
                 number(p.registersPerMultiprocessor) + " " + number(p.maxThreadsPerBlock) + " " +
                 number(p.memoryBytes >> 30) + " " + number(p.l2Bytes) + " " + number(p.clockKHz) + " " +
                 number(p.driverVersion) + " " + number(p.warpThreads) + " " +
                 number(p.maxThreadsPerMultiprocessor) + " " + number(p.sharedBytesPerMultiprocessor);
        }).said == "sm_90a 9.0 132 232448 65536 1024 141 62914560 1980000 13000 32 2048 233472");
}

TEST_CASE("Device: copies are the same device", "[runtime][device]") {
  CHECK(withFake({{"FAKECUDA_DEVICES", "2"}}, [] {
          Device a = Device::gpu(1), b = a;
          std::vector<std::thread> threads;
          std::atomic<int> same{0};
          for (int i = 0; i < 8; ++i)
            threads.emplace_back(
                [&] { same += Device::gpu(1) == a && Device::gpu(1).stream() == a.stream(); });
          for (auto &t : threads)
            t.join();
          return number(a == b) + number(a == Device::gpu(0)) + number(same) + number(fake()->inits) +
                 number(fake()->streams);
        }).said == "10811");
}

TEST_CASE("Device: drivers that cannot be used", "[runtime][device]") {
  auto gpu = [] { return Device::gpu(0).name(); };
  auto best = [] { return number(Device::gpuCount()) + Device::best().name(); };
  auto both = [&](Environment e, const std::string &reason, const std::string &rule,
                  const std::string &wayOut) {
    std::string said = withFake(e, gpu).said;
    CHECK(has(said, reason));
    CHECK(has(said, "[" + rule + "]"));
    CHECK(has(said, wayOut));
    CHECK(withFake(e, best).said == "0interpreter");
  };
  both({{"FAKECUDA_VERSION", "11040"}}, "the CUDA driver supports CUDA 11.4, and at least 12.0 is needed",
       "driver_too_old", "update the NVIDIA driver");
  both({{"FAKECUDA_DEVICES", "0"}}, "the CUDA driver sees no GPU", "no_gpu", "install the NVIDIA driver");
  both({{"FAKECUDA_FAIL", "cuInit=100"}}, "the CUDA driver sees no GPU", "no_gpu", "Device::interpreter()");
  both({{"FAKECUDA_FAIL", "cuInit=803"}}, "the CUDA driver does not start: unknown CUDA error (803)",
       "no_gpu", "Device::interpreter()");
  // A library that is no driver at all.
  both({{"SECTILE_CUDA_LIBRARY", "libm.so.6"}}, "libm.so.6 has no cuInit", "driver_too_old",
       "update the NVIDIA driver");
  std::string range = withFake({{"FAKECUDA_DEVICES", "2"}}, [] { return Device::gpu(-1).name(); }).said;
  CHECK(has(range, "GPU -1 is asked for and there are 2 [gpu_range]"));
  CHECK(has(range, "use 0 to 1"));
}

TEST_CASE("Device: fork before first use works, after it is refused", "[runtime][device]") {
  auto grandchild = [] {
    return inChild({},
                   [] {
                     std::string count = number(Device::gpuCount());
                     return count + Device::gpu(0).name();
                   })
        .said;
  };
  CHECK(withFake({}, [&] {
          std::string child = grandchild();
          return child + number(Device::gpuCount());
        }).said == "1Fake H2001");
  std::string late = withFake({}, [&] {
                       Device::gpu(0);
                       return grandchild();
                     }).said;
  CHECK(has(late, "this process was forked after its parent first used a GPU"));
  CHECK(has(late, "[forked_after_use]"));
  CHECK(has(late, "fork before the first use of a GPU"));
  // Best falls back, and what was made before the fork goes quietly.
  CHECK(withFake({}, [&] {
          auto buffer = std::make_unique<Buffer<float>>(Device::gpu(0), 16);
          auto stream = std::make_unique<Stream>(Device::gpu(0));
          std::string child = inChild({}, [&] {
                                buffer.reset();
                                stream.reset();
                                return number(Device::gpuCount()) + Device::best().name() +
                                       number(fake()->liveAllocations) + number(fake()->streams);
                              }).said;
          buffer.reset();
          return child + " " + number(fake()->liveAllocations);
        }).said == "0interpreter11 0");
}

TEST_CASE("Buffer: on the interpreter", "[runtime][buffer]") {
  Device d = Device::interpreter();
  Buffer<float> b(d, 3, 5);
  CHECK(b.size() == 15);
  CHECK(b.rank() == 2);
  CHECK(b.dims()[0] == 3);
  CHECK(b.dims()[1] == 5);
  CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 256 == 0);
  std::vector<float> host(15);
  std::iota(host.begin(), host.end(), 0.f);
  b.copyFrom(host);
  CHECK(b.toHost() == host);
  CHECK(b.data()[7] == 7.f);
  b.fillBytes(0);
  CHECK(b.toHost() == std::vector<float>(15));

  Buffer<float> moved(std::move(b));
  CHECK(moved.size() == 15);
  CHECK(b.data() == nullptr);
  b = std::move(moved);
  CHECK(b.size() == 15);

  Buffer<i8> scalar(d);
  CHECK((scalar.rank() == 0 && scalar.size() == 1));
  Buffer<bf16> list(Stream(d), {2, 0, 4});
  CHECK((list.size() == 0 && list.data() == nullptr && list.toHost().empty()));
  list.fillBytes(1);
  Buffer<bool> flags(d, 2);
  const bool in[2] = {true, false};
  flags.copyFrom(in);
  CHECK(flags.toHost() == std::vector<bool>{true, false});
  static_assert(!std::is_copy_constructible_v<Buffer<float>>);
}

TEST_CASE("Buffer: bad dims and sizes name the numbers and the user's line", "[runtime][buffer]") {
  Device d = Device::interpreter();
  auto message = [](auto make) -> std::string {
    try {
      make();
    } catch (const UserError &e) {
      return std::string(e.what()) + " line " + std::to_string(e.loc().line);
    }
    return "nothing thrown";
  };
  CHECK(has(message([&] { Buffer<float>(d, 2, -3); }),
            "dims [2, -3] hold the negative length -3 [buffer_dims]"));
  CHECK(has(message([&] {
              Buffer<float>(d, {1, 1, 1, 1, 1, 1});
            }),
            "rank 6 is over the limit of 5 [buffer_dims]"));
  CHECK(has(message([&] { Buffer<double>(d, INT64_C(1) << 40, INT64_C(1) << 40); }),
            "dims [1099511627776, 1099511627776] of 8-byte elements are more than 2^63-1 bytes"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which end the process instead
  CHECK(has(message([&] { Buffer<double>(d, INT64_C(1) << 55); }), "[out_of_memory]"));
#endif
  Buffer<float> b(d, 4);
  const std::uint32_t line = __LINE__ + 1;
  std::string size = message([&] { b.copyFrom(std::vector<float>(3)); });
  CHECK(has(size, "12 bytes of host elements are given and the buffer holds 16 bytes [copy_size]"));
  CHECK(has(size, "line " + std::to_string(line)));
  const std::uint32_t madeLine = __LINE__ + 1;
  std::string made = message([&] { Buffer<float>(d, 2, -3); });
  CHECK(has(made, "line " + std::to_string(madeLine)));
  CHECK(has(made, "DeviceTest.cpp"));
}

TEST_CASE("Buffer: on a GPU", "[runtime][buffer]") {
  CHECK(withFake({}, [] {
          std::string said;
          {
            Device d = Device::gpu(0);
            Buffer<i32> b(d, 2, 3), c(d.stream(), 6);
            std::vector<i32> host{1, 2, 3, 4, 5, 6};
            b.copyFrom(host);
            c.copyFrom(host, d.stream());
            said = number(b.toHost() == host) + number(c.toHost() == host) + number(fake()->liveAllocations);
            Buffer<i32> empty(d, 0);
            c = std::move(b);
            said += number(fake()->liveAllocations);
          }
          return said + number(fake()->liveAllocations);
        }).said == "11210");
  std::string full = withFake({{"FAKECUDA_FREE", "1000"}}, [] {
                       return number(Buffer<float>(Device::gpu(0), 500).size());
                     }).said;
  CHECK(has(full, "2000 bytes for dims [500] are more than GPU 0 has free (1000 of"));
  CHECK(has(full, "[out_of_memory]"));
  std::string other = withFake({{"FAKECUDA_DEVICES", "2"}}, [] {
                        Buffer<float> b(Device::gpu(0), 1);
                        b.copyFrom(std::vector<float>(1), Device::gpu(1).stream());
                        return std::string();
                      }).said;
  CHECK(has(other, "[stream_device]"));
}

TEST_CASE("Stream: own, wrapped, and on another GPU", "[runtime][stream]") {
  CHECK(withFake({}, [] {
          std::string said;
          {
            Stream s(Device::gpu(0)), t = s;
            said = number(fake()->streams);
            said += number(s == t) + number(s == Stream(Device::gpu(0)));
            Stream w = Stream::wrap(Device::gpu(0), s.native());
            said += number(w.native() == s.native()) + number(w == Stream::wrap(Device::gpu(0), s.native()));
            s.synchronize();
            w.synchronize();
          }
          return said + number(fake()->streams);
        }).said == "110110");
  std::string other = withFake({{"FAKECUDA_DEVICES", "2"}}, [] {
                        Stream s(Device::gpu(1));
                        Stream::wrap(Device::gpu(0), s.native());
                        return std::string();
                      }).said;
  CHECK(has(other, "the stream belongs to GPU 1 and the device is GPU 0 [stream_device]"));
  CHECK(has(other, "wrap it with Device::gpu(1)"));
  CHECK(has(withoutDriver({},
                          [] {
                            Stream::wrap(Device::interpreter(), nullptr);
                            return std::string();
                          })
                .said,
            "a CUDA stream cannot be a stream of the interpreter [stream_device]"));
}

TEST_CASE("RecentLaunches: what finished goes, what came later or on another stream stays",
          "[runtime][stream]") {
  auto stream = [](std::uintptr_t n) { return reinterpret_cast<runtime::CuStream>(n); };
  detail::RecentLaunches recent;
  CHECK(recent.text() == "");
  recent.add("a", stream(16));
  recent.add("b", stream(32));
  const std::uint64_t waited = recent.count();
  recent.add("c", stream(16));
  CHECK(recent.text() == "a, b, c");
  recent.finished(stream(16), waited);
  CHECK(recent.text() == "b, c");
  for (int i = 0; i < 6; ++i)
    recent.add("d", stream(16));
  CHECK(recent.text() == "b, c, d, d, d, d, d, d");
  recent.add("e", stream(16));
  CHECK(recent.text() == "c, d, d, d, d, d, d, e");
  recent.finished(stream(32), recent.count());
  CHECK(recent.text() == "c, d, d, d, d, d, d, e");
  recent.finished(stream(16), recent.count());
  CHECK(recent.text() == "");
}

TEST_CASE("Stream: a fault is the user's error, with the CUDA text", "[runtime][stream]") {
  std::string said = withFake({{"FAKECUDA_FAIL", "cuStreamSynchronize=700"}}, [] {
                       Device::gpu(0).stream().synchronize();
                       return std::string();
                     }).said;
  CHECK(has(
      said,
      "GPU 0 has faulted with CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"));
  CHECK(has(said, "no kernel of Sectile was running"));
  CHECK(has(said, "[device_fault]"));
  CHECK(has(withFake({{"FAKECUDA_FAIL", "cuStreamCreate=900"}},
                     [] {
                       Device::gpu(0).stream();
                       return std::string();
                     })
                .said,
            "cuStreamCreate is not possible during a stream capture"));
  CHECK(has(withFake({{"FAKECUDA_FAIL", "cuStreamCreate=1"}},
                     [] {
                       Device::gpu(0).stream();
                       return std::string();
                     })
                .said,
            "cuStreamCreate failed on GPU 0 with unknown CUDA error (1)"));
}

TEST_CASE("Timer: order and both clocks", "[runtime][timer]") {
  Timer t(Device::interpreter().stream());
  CHECK_THROWS_WITH(t.stop(), Catch::Contains("[timer_order]"));
  t.start();
  CHECK_THROWS_WITH(t.micros(), Catch::Contains("[timer_order]"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  t.stop();
  CHECK(t.micros() >= 2000);
  CHECK(t.micros() < 10e6);
  CHECK(withFake({}, [] {
          std::string said;
          {
            Timer g(Device::gpu(0).stream());
            g.start();
            g.stop();
            said = number(static_cast<long>(g.micros())) + " " + number(fake()->events);
          }
          return said + number(fake()->events);
        }).said == "250 20");
}
