// SPDX-License-Identifier: Apache-2.0
/// \file The runtime against a real driver: hand-written PTX, each case in a child process. Skipped without a
/// GPU.
#include "runtime/Driver.h"
#include "runtime/Env.h"
#include "runtime/KernelCache.h"
#include "runtime/Launch.h"
#include "runtime/Ptxas.h"
#include "tests/support/InChild.h"

#include <sectile/Buffer.h>
#include <sectile/Timer.h>

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;
using test::ChildResult;
using test::Environment;
using test::inChild;

namespace {

/// True when a child sees a GPU: this process itself must not open the driver, or its children could not.
bool haveGpu() {
  static const bool have = inChild({{"SECTILE_CUDA_LIBRARY", ""}}, [] {
                             reloadEnv();
                             return std::to_string(Device::gpuCount());
                           }).said != "0";
  return have;
}
#define NEEDS_GPU                                                                                            \
  if (!haveGpu()) {                                                                                          \
    WARN("skipped: no GPU");                                                                                 \
    return;                                                                                                  \
  }

std::string onGpu(Environment e, const std::function<std::string()> &work) {
  e.insert(e.begin(), {{"SECTILE_CUDA_LIBRARY", ""}, {"SECTILE_DEVICE", ""}, {"SECTILE_CHECK", ""}});
  return inChild(e,
                 [&] {
                   reloadEnv();
                   return work();
                 })
      .said;
}

/// out[program * 128 + thread] = dim * 1000 + tail + program, after `spin` turns of a loop. Parameters: a
/// tensor of rank 1, a 64-bit scalar (spin) and a 16-bit scalar at the end (tail). `offset` is added to the
/// pointer.
std::string ptx(const std::string &arch, const char *offset = "0") {
  return ".version 8.0\n.target " + arch + R"(
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 dim, .param .u64 stride, .param .u64 spin, .param .u16 tail) {
  .reg .b64 %rd<9>;
  .reg .b32 %r<9>;
  .reg .b16 %h<2>;
  .reg .pred %p;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [dim];
  ld.param.u64 %rd3, [spin];
  ld.param.u16 %h1, [tail];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mov.u64 %rd7, 0;
again:
  setp.ge.u64 %p, %rd7, %rd3;
  @%p bra done;
  nanosleep.u32 1000;
  add.u64 %rd7, %rd7, 1;
  bra again;
done:
  mad.lo.u32 %r3, %r1, 128, %r2;
  cvt.u32.u64 %r4, %rd2;
  cvt.u32.u16 %r5, %h1;
  mad.lo.u32 %r6, %r4, 1000, %r5;
  add.u32 %r6, %r6, %r1;
  mul.wide.u32 %rd4, %r3, 4;
  add.u64 %rd5, %rd1, %rd4;
  add.u64 %rd5, %rd5, )" +
         offset + R"(;
  st.global.u32 [%rd5], %r6;
  ret;
}
)";
}

std::shared_ptr<Module> kernel(const Device &d, std::string text, const char *name, bool cubin = false) {
  auto a = std::make_shared<Artifact>();
  a->launch = {
      .symbol = "k", .grid = {{0, 0, 128}}, .threads = 128, .sharedBytes = 100000, .argRanks = {1, -1, -1}};
  a->arch = d.arch();
  a->ptx = std::move(text);
  if (cubin)
    a->cubin = Ptxas::find()->assemble(a->ptx, a->arch).cubin;
  return std::make_shared<Module>(name, a);
}
std::vector<KernelArg> arguments(Buffer<i32> &b, std::uint64_t spin, std::uint64_t tail) {
  KernelArg t;
  t.dtype = DType::i32;
  t.rank = 1;
  t.data = b.data();
  t.dims[0] = b.size();
  t.strides[0] = 1;
  KernelArg s, h;
  s.dtype = DType::i64;
  s.scalar = spin;
  h.dtype = DType::u16;
  h.scalar = tail;
  return {t, s, h};
}
/// "right", or the first element that is not what the kernel writes.
std::string judge(Buffer<i32> &b, int tail) {
  auto host = b.toHost();
  for (std::size_t i = 0; i < host.size(); ++i)
    if (int want = static_cast<int>(b.size() * 1000 + tail + i / 128); host[i] != want)
      return "element " + std::to_string(i) + " is " + std::to_string(host[i]) + " instead of " +
             std::to_string(want);
  return "right";
}
bool has(const std::string &text, const std::string &part) {
  INFO(text);
  INFO(part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}
template <class F> std::string thrown(F work) {
  try {
    work();
  } catch (const std::exception &e) {
    return e.what();
  }
  return "nothing thrown";
}
template <class F> F *driver(const char *name) {
  return reinterpret_cast<F *>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

} // namespace

TEST_CASE("GPU: properties", "[runtime][gpu]") {
  NEEDS_GPU
  std::string said = onGpu({}, [] {
    Device d = Device::best();
    const DeviceProperties &p = d.properties();
    bool sane = p.multiprocessors > 0 && p.sharedBytesPerBlock >= 65536 &&
                p.registersPerMultiprocessor >= 65536 && p.maxThreadsPerBlock >= 1024 && p.memoryBytes > 0 &&
                p.l2Bytes > 0 && p.warpThreads == 32;
    return std::string(sane ? "sane " : "odd ") + (d.arch().starts_with("sm_") ? "sm" : d.arch());
  });
  CHECK(said == "sane sm");
}

TEST_CASE("GPU: parameters arrive, with PTX and with a cubin, plain and prepared", "[runtime][gpu]") {
  NEEDS_GPU
  for (bool cubin : {false, true})
    for (bool prepared : {false, true})
      CHECK(onGpu({}, [&] {
              Device d = Device::gpu(0);
              if (cubin && !Ptxas::find())
                return std::string("right");
              Stream s(d);
              Buffer<i32> b(d, 128 * 1000);
              auto m = kernel(d, ptx(d.arch()), "writer", cubin);
              if (prepared)
                PreparedLaunch(m, arguments(b, 0, 7))(s);
              else
                launch(*m, arguments(b, 0, 7), s);
              s.synchronize();
              return judge(b, 7);
            }) == "right");
}

TEST_CASE("GPU: pointers that it cannot use", "[runtime][gpu]") {
  NEEDS_GPU
  has(onGpu({},
            [] {
              Device d = Device::gpu(0);
              auto m = kernel(d, ptx(d.arch()), "writer");
              Buffer<i32> host(Device::interpreter(), 128);
              return thrown([&] { launch(*m, arguments(host, 0, 0), d.stream()); });
            }),
      "[host_pointer]");
  has(onGpu({{"SECTILE_CHECK", "pointers"}},
            [] {
              Device d = Device::gpu(0);
              auto m = kernel(d, ptx(d.arch()), "writer");
              auto b = std::make_unique<Buffer<i32>>(d, 64 << 20);
              auto args = arguments(*b, 0, 0);
              launch(*m, args, d.stream());
              d.stream().synchronize();
              b.reset();
              return thrown([&] { launch(*m, args, d.stream()); });
            }),
      "[host_pointer]");
}

TEST_CASE("GPU: a fault names its kernel, and the process lives", "[runtime][gpu]") {
  NEEDS_GPU
  std::string said = onGpu({}, [] {
    Device d = Device::gpu(0);
    Buffer<i32> b(d, 128);
    auto good = kernel(d, ptx(d.arch()), "innocent"),
         bad = kernel(d, ptx(d.arch(), "0x400000000000"), "culprit");
    launch(*good, arguments(b, 0, 0), d.stream());
    d.stream().synchronize();
    launch(*bad, arguments(b, 0, 0), d.stream());
    std::string first = thrown([&] { d.stream().synchronize(); });
    return first + "\n" + thrown([&] { b.toHost(); });
  });
  has(said, "newest last: culprit [device_fault]");
  CHECK(said.find("innocent") == std::string::npos);
  has(said.substr(said.find('\n')), "[device_fault]");
}

TEST_CASE("GPU: bad PTX is refused with the driver's log", "[runtime][gpu]") {
  NEEDS_GPU
  std::string said = onGpu({}, [] {
    Device d = Device::gpu(0);
    Buffer<i32> b(d, 128);
    auto m = kernel(d, ptx(d.arch()) + "nonsense", "broken");
    return thrown([&] { launch(*m, arguments(b, 0, 0), d.stream()); });
  });
  has(said, "its assembler says: ");
  has(said, "[load_failed]");
}

TEST_CASE("GPU: evicting a module waits for its launches", "[runtime][gpu]") {
  NEEDS_GPU
  CHECK(onGpu({}, [] {
          Device d = Device::gpu(0);
          Buffer<i32> b(d, 128 * 64);
          auto m = kernel(d, ptx(d.arch()), "slow");
          launch(*m, arguments(b, 100000, 3), d.stream()); // about 0.1 s
          m.reset();
          d.stream().synchronize();
          return judge(b, 3);
        }) == "right");
}

TEST_CASE("GPU: a captured graph keeps what it points at, and capture forbids nothing to a warm kernel",
          "[runtime][gpu]") {
  NEEDS_GPU
  CHECK(onGpu({}, [] {
          Device d = Device::gpu(0);
          Stream s(d);
          Buffer<i32> b(d, 128 * 10);
          auto m = kernel(d, ptx(d.arch()), "captured");
          launch(*m, arguments(b, 0, 1), s);
          s.synchronize();
          // Graphs are made and launched in the caller's current context, and Sectile leaves none current.
          CuContext context = nullptr;
          int bad = driver<int(CuContext *, CuDevice)>("cuDevicePrimaryCtxRetain")(&context, 0);
          bad |= driver<int(CuContext)>("cuCtxSetCurrent")(context);
          void *graph = nullptr, *exec = nullptr;
          bad |= driver<int(CUstream_st *, int)>("cuStreamBeginCapture_v2")(s.native(), 0);
          launch(*m, arguments(b, 0, 2), s);
          PreparedLaunch(m, arguments(b, 0, 5))(s);
          bad |= driver<int(CUstream_st *, void **)>("cuStreamEndCapture")(s.native(), &graph);
          m.reset();
          bad |= driver<int(void **, void *, unsigned long long)>("cuGraphInstantiateWithFlags")(&exec, graph,
                                                                                                 0);
          bad |= driver<int(void *, CUstream_st *)>("cuGraphLaunch")(exec, s.native());
          s.synchronize();
          return (bad ? "driver error " + std::to_string(bad) + " " : "") + judge(b, 5);
        }) == "right");
}

TEST_CASE("GPU: a foreign stream in a context of its own, and the caller's context afterwards",
          "[runtime][gpu]") {
  NEEDS_GPU
  CHECK(onGpu({}, [] {
          Device d = Device::gpu(0);
          CuContext mine = nullptr, after = nullptr;
          CuDevice device = 0;
          CuStream stream = nullptr;
          int bad = driver<int(CuDevice *, int)>("cuDeviceGet")(&device, 0);
          bad |= driver<int(CuContext *, unsigned, CuDevice)>("cuCtxCreate_v2")(&mine, 0, device);
          bad |= driver<int(CuStream *, unsigned)>("cuStreamCreate")(&stream, 1);
          CuDevicePtr memory = 0;
          bad |= driver<int(CuDevicePtr *, std::size_t)>("cuMemAlloc_v2")(&memory, 512);
          Buffer<i32> b(d, 128);
          auto m = kernel(d, ptx(d.arch()), "writer");
          auto args = arguments(b, 0, 9);
          args[0].data = reinterpret_cast<void *>(memory);
          Stream s = Stream::wrap(d, stream);
          launch(*m, args, s);
          s.synchronize();
          launch(*m, arguments(b, 0, 4), d.stream());
          d.stream().synchronize();
          bad |= driver<int(CuContext *)>("cuCtxGetCurrent")(&after);
          i32 first = 0;
          bad |= driver<int(void *, CuDevicePtr, std::size_t)>("cuMemcpyDtoH_v2")(&first, memory, 4);
          return std::to_string(bad) + " " + std::to_string(after == mine) + " " + std::to_string(first) +
                 " " + judge(b, 4);
        }) == "0 1 128009 right");
}

TEST_CASE("GPU: several threads, and fork before first use", "[runtime][gpu]") {
  NEEDS_GPU
  CHECK(onGpu({}, [] {
          std::string child = inChild({}, [] {
                                Device d = Device::gpu(0);
                                Buffer<i32> b(d, 128);
                                launch(*kernel(d, ptx(d.arch()), "writer"), arguments(b, 0, 1), d.stream());
                                return judge(b, 1);
                              }).said;
          Device d = Device::gpu(0);
          auto m = kernel(d, ptx(d.arch()), "writer");
          std::vector<std::thread> threads;
          std::vector<std::string> said(8);
          for (int i = 0; i < 8; ++i)
            threads.emplace_back([&, i] {
              Stream s(d);
              Buffer<i32> b(s, 128 * 100);
              for (int k = 0; k < 50; ++k)
                launch(*m, arguments(b, 0, i), s);
              s.synchronize();
              said[i] = judge(b, i);
            });
          for (auto &t : threads)
            t.join();
          for (auto &one : said)
            if (one != "right")
              return one;
          return child;
        }) == "right");
}

TEST_CASE("GPU: timer", "[runtime][gpu]") {
  NEEDS_GPU
  CHECK(onGpu({}, [] {
          Device d = Device::gpu(0);
          Buffer<i32> b(d, 128);
          auto m = kernel(d, ptx(d.arch()), "slow");
          launch(*m, arguments(b, 0, 0), d.stream());
          Timer t(d.stream());
          t.start();
          launch(*m, arguments(b, 1000, 0), d.stream()); // a thousand sleeps of up to 2 us
          t.stop();
          double us = t.micros();
          return us > 200 && us < 1e6 ? std::string("plausible") : std::to_string(us);
        }) == "plausible");
}
