// SPDX-License-Identifier: Apache-2.0
#include "runtime/KernelCache.h"
#include "tests/support/FakeLaunch.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;
using namespace sectile::test;

/// Allocations of this thread since the program started. Not inlined, or the compiler takes malloc and delete
/// for a mismatched pair.
static thread_local long allocations = 0;
__attribute__((noinline)) void *operator new(std::size_t bytes) {
  ++allocations;
  if (void *p = std::malloc(bytes ? bytes : 1))
    return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void *p, std::size_t) noexcept { std::free(p); }

namespace {

KernelArg scalar(DType dtype, std::uint64_t bits) {
  KernelArg a;
  a.dtype = dtype;
  a.scalar = bits;
  return a;
}
template <class F> F *driver(const char *name) { return reinterpret_cast<F *>(fakeSymbol(name)); }
std::string number(long long n) { return std::to_string(n); }
const CallSite site{"demo", std::source_location::current()};

} // namespace

TEST_CASE("Launch: number of programs", "[runtime][launch]") {
  auto programs = [](std::vector<std::int64_t> dims) {
    return gridPrograms(info2d(), std::vector{tensor(somewhere, std::move(dims))}, site);
  };
  CHECK(programs({4, 8}) == 1);
  CHECK(programs({5, 8}) == 2);
  CHECK(programs({7, 17}) == 6);
  CHECK(programs({1, 1}) == 1);
  CHECK(programs({0, 8}) == 0);
  CHECK(programs({8, 0}) == 0);
  CHECK(programs({INT64_C(4) * 2147483647, 8}) == 2147483647);
  CHECK(programs({INT64_MAX, 0}) == 0);
  std::string over = thrown([&] { programs({INT64_C(4) * 2147483647 + 1, 8}); });
  CHECK(has(over, "the grid has 2147483648 programs and the limit is 2147483647 [grid_limit]"));
  CHECK(has(over, "use larger tiles"));
  CHECK(has(over, "(in kernel demo)"));
  CHECK(has(thrown([&] {
              programs({INT64_MAX, INT64_MAX});
            }),
            "the grid has over 2^62 programs and the limit is 2147483647"));
  // No axes: one program. An empty axis behind a product that is far over the limit still means none.
  LaunchInfo none = info2d();
  none.grid.clear();
  CHECK(gridPrograms(none, std::vector{tensor(somewhere, {4, 8})}, site) == 1);
  LaunchInfo three;
  three.grid = {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}};
  CHECK(gridPrograms(three, std::vector{tensor(somewhere, {INT64_MAX, INT64_MAX, 0})}, site) == 0);
  LaunchInfo wrong = info2d();
  wrong.grid[0].axis = 2;
  CHECK(has(thrown([&] {
              gridPrograms(wrong, std::vector{tensor(somewhere, {4, 8})}, site);
            }),
            "internal error: kernel demo: grid axis (argument 0, axis 2, tile 4) does not exist"));
}

TEST_CASE("Launch: parameters are packed in order, at their natural alignment", "[runtime][launch]") {
  KernelArg t = tensor(somewhere, {3, 5}, DType::bf16);
  t.strides = {7, 1};
  std::vector<KernelArg> args{scalar(DType::boolean, 1),
                              scalar(DType::f16, 0x3c00),
                              scalar(DType::i8, 0xff),
                              t,
                              scalar(DType::f32, 0x3f800000),
                              scalar(DType::f64, 0x4000000000000000),
                              tensor(nullptr, {}),
                              scalar(DType::u16, 0xabcd)};
  REQUIRE(parameterBytes(args) == 74);
  std::vector<std::byte> out(74 + 1, std::byte(0x5a));
  packParameters(args, out.data());
  CHECK(out[74] == std::byte(0x5a));
  auto at = [&](std::size_t offset, auto value) {
    decltype(value) v;
    std::memcpy(&v, out.data() + offset, sizeof v);
    return v == value;
  };
  CHECK(at(0, std::uint8_t(1)));
  CHECK(at(2, std::uint16_t(0x3c00)));
  CHECK(at(4, std::uint8_t(0xff)));
  CHECK(at(8, somewhere));
  CHECK(at(16, std::int64_t(3)));
  CHECK(at(24, std::int64_t(5)));
  CHECK(at(32, std::int64_t(7)));
  CHECK(at(40, std::int64_t(1)));
  CHECK(at(48, 1.0f));
  CHECK(at(56, 2.0));
  CHECK(at(64, static_cast<void *>(nullptr)));
  CHECK(at(72, std::uint16_t(0xabcd)));
}

TEST_CASE("Launch: wrong arguments are refused by number", "[runtime][launch]") {
  auto check = [](std::vector<KernelArg> args) {
    return thrown([&] { checkArguments(info2d(), args, site); });
  };
  CHECK(check({tensor(somewhere, {4, 8})}) == "nothing thrown");
  KernelArg oneRow = tensor(&oneRow, {4, 8});
  oneRow.strides[0] = 0;
  CHECK(check({oneRow}).find("axis 0 has stride 0: its 4 elements are one place in memory [arg_strides]") != std::string::npos);
  oneRow.readOnly = true;
  CHECK(check({oneRow}) == "nothing thrown");
  CHECK(check({tensor(nullptr, {4, 0})}) == "nothing thrown");
  CHECK(has(check({}), "internal error: kernel demo: 0 arguments are given and the kernel takes 1"));
  CHECK(has(check({tensor(somewhere, {4})}), "argument 0 has rank 1 and the kernel takes rank 2"));
  CHECK(has(check({scalar(DType::f32, 0)}), "argument 0 has rank -1 and the kernel takes rank 2"));
  CHECK(has(check({tensor(somewhere, {4, -8})}),
            "argument 0 has dims [4, -8], and the length of axis 1 is negative [arg_dims]"));
  std::string null = check({tensor(nullptr, {4, 8})});
  CHECK(has(null, "LaunchTest.cpp"));
  CHECK(has(null, "launch: argument 0 has dims [4, 8] and its data pointer is null [null_pointer]"));
  LaunchInfo rank0;
  rank0.argRanks = {0};
  CHECK(
      has(thrown([&] { checkArguments(rank0, std::vector{tensor(nullptr, {})}, site); }), "[null_pointer]"));
}

TEST_CASE("Launch: too many parameters", "[runtime][launch]") {
  LaunchInfo info;
  info.argRanks.assign(47, 5);
  std::vector<KernelArg> args(47, tensor(somewhere, {1, 1, 1, 1, 1}));
  CHECK(has(thrown([&] { PreparedLaunch(module(info), args); }),
            "the 47 arguments take 4136 bytes of kernel parameters and the limit is 4096 [args_bytes]"));
}

TEST_CASE("Launch: what reaches the driver", "[runtime][launch]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          Stream s(d);
          Buffer<float> b(d, 7, 17);
          LaunchInfo info = info2d();
          info.sharedBytes = 100000;
          auto m = module(info);
          launch(*m, std::vector{view(b)}, s);
          FakeCudaState &f = fake();
          void *data;
          std::memcpy(&data, f.params, 8);
          std::int64_t rest[4];
          std::memcpy(rest, f.params + 8, 32);
          return number(f.launches) + " " + number(f.gridX) + " " + number(f.gridY * f.gridZ) + " " +
                 number(f.blockX) + " " + number(f.blockY * f.blockZ) + " " + number(f.sharedBytes) + " " +
                 number(f.dynamicSharedBytes) + " " + number(f.stream == s.native()) + " " +
                 number(f.paramBytes) + " " + number(data == b.data()) + " " + number(rest[0]) + "," +
                 number(rest[1]) + "," + number(rest[2]) + "," + number(rest[3]) + " " +
                 number(f.relaxedLoads);
        }) == "1 6 1 128 1 100000 100000 1 40 1 7,17,17,1 1");
}

TEST_CASE("Launch: prepared calls look nothing up again", "[runtime][launch]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          Buffer<float> b(d, 4, 8);
          std::string said;
          std::unique_ptr<PreparedLaunch> call, copy;
          {
            auto m = module(info2d());
            call = std::make_unique<PreparedLaunch>(m, std::vector{view(b)});
          }
          copy = std::make_unique<PreparedLaunch>(*call);
          std::vector<std::thread> threads;
          for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
              for (int k = 0; k < 100; ++k)
                (*call)(d.stream());
            });
          for (auto &t : threads)
            t.join();
          (*copy)(d.stream());
          said = number(fake().launches) + " " + number(fake().loads) + " " + number(fake().paramBytes) +
                 " " + number(call->programs()) + " " + number(call->parameters().size()) + " " +
                 number(fake().pointerQueries <= 5 && fake().pointerQueries >= 2) + " " +
                 number(fake().modulesLoaded);
          call.reset();
          said += number(fake().modulesLoaded);
          copy.reset();
          return said + number(fake().modulesLoaded) + number(fake().synchronizations);
        }) == "401 1 40 1 40 1 1101");
}

TEST_CASE("Launch: no allocation per launch", "[runtime][launch]") {
  for (const char *check : {"", "pointers"})
    CHECK(withFake({{"SECTILE_CHECK", check}}, [] {
            Stream stream = Device::gpu(0).stream();
            Buffer<float> b(stream, 4, 8);
            auto m = module(info2d());
            const std::vector args{view(b)};
            PreparedLaunch call(m, args);
            call(stream);
            launch(*m, args, stream);
            const long before = allocations;
            for (int i = 0; i < 10; ++i) {
              launch(*m, args, stream);
              call(stream);
            }
            return number(allocations - before) + " " + number(fake().launches);
          }) == "0 22");
}

TEST_CASE("Launch: a program takes the blocks of a cluster", "[runtime][launch]") {
  LaunchInfo info = info2d();
  info.cluster = 4;
  std::string over = thrown([&] {
    gridPrograms(info, std::vector{tensor(somewhere, {INT64_C(4) * 536870912, 8})}, site);
  });
  CHECK(has(over, "the grid has 536870912 programs and the limit is 536870911 [grid_limit]"));
  CHECK(withFake({}, [&] {
          Device d = Device::gpu(0);
          auto m = module(info);
          Buffer<float> x(d, 5, 17);
          std::vector args{view(x)};
          launch(*m, args, d.stream());
          return number(fake().gridX) + " " + number(fake().gridY) + " " + number(fake().blockX);
        }) == "24 1 128");
}

TEST_CASE("Launch: no allocation per launch whose loop blocks share", "[runtime][launch][split]") {
  CHECK(withFake({}, [] {
          Stream stream(Device::gpu(0));
          Buffer<float> b(stream, 4000, 8);
          LaunchInfo info = info2d();
          info.grid = {{0, 1, 8}};
          info.split = {.possible = true, .lower = {}, .upper = {.arg = 0, .axis = 0}, .step = {.value = 4}};
          auto m = module(info);
          const std::vector args{view(b)};
          PreparedLaunch call(m, args);
          call(stream);
          launch(*m, args, stream);
          const long before = allocations;
          const int onDevice = fake().liveAllocations;
          for (int i = 0; i < 10; ++i) {
            launch(*m, args, stream);
            call(stream);
          }
          return number(fake().gridY) + " " + number(allocations - before) + " " +
                 number(fake().liveAllocations - onDevice) + " " + number(fake().launches);
        }) == "334 0 0 22");
}

TEST_CASE("Launch: no programs, no launch", "[runtime][launch]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          auto m = module(info2d());
          std::vector args{tensor(nullptr, {0, 8})};
          launch(*m, args, d.stream());
          PreparedLaunch(m, args)(d.stream());
          return number(fake().launches) + number(fake().loads);
        }) == "00");
}

TEST_CASE("Launch: the caller's context stays current", "[runtime][launch]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          Buffer<float> b(d, 4, 8);
          auto m = module(info2d());
          auto getCurrent = driver<int(void **)>("cuCtxGetCurrent");
          auto push = driver<int(void *)>("cuCtxPushCurrent_v2");
          auto create = driver<FakeCudaCreateContextFn>("fakeCudaCreateContext");
          void *none = somewhere, *mine = create(0), *after = nullptr;
          launch(*m, std::vector{view(b)}, d.stream());
          getCurrent(&none);
          push(mine);
          launch(*m, std::vector{view(b)}, d.stream());
          b.toHost();
          d.stream().synchronize();
          getCurrent(&after);
          std::string said =
              number(none == nullptr) + number(after == mine) + number(fake().contextAtLaunch != mine);
          // An error leaves it current too.
          setenv("FAKECUDA_FAIL", "cuLaunchKernel=700", 1);
          said += has(thrown([&] { launch(*m, std::vector{view(b)}, d.stream()); }), "[device_fault]") ? "1"
                                                                                                       : "0";
          getCurrent(&after);
          return said + number(after == mine);
        }) == "11111");
}

TEST_CASE("Launch: a stream of another context of the device gets the code in that context",
          "[runtime][launch]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          Buffer<float> b(d, 4, 8);
          auto m = module(info2d());
          void *mine = driver<FakeCudaCreateContextFn>("fakeCudaCreateContext")(0), *popped;
          CUstream_st *stream = nullptr;
          driver<int(void *)>("cuCtxPushCurrent_v2")(mine);
          driver<int(CUstream_st **, unsigned)>("cuStreamCreate")(&stream, 0);
          // A default stream is that of the current context.
          Stream legacy = Stream::wrap(d, nullptr);
          driver<int(void **)>("cuCtxPopCurrent_v2")(&popped);
          Stream wrapped = Stream::wrap(d, stream);
          launch(*m, std::vector{view(b)}, d.stream());
          std::string said = number(fake().loads) + number(fake().contextAtLaunch == mine);
          launch(*m, std::vector{view(b)}, wrapped);
          said +=
              number(fake().loads) + number(fake().contextAtLaunch == mine) + number(fake().stream == stream);
          launch(*m, std::vector{view(b)}, legacy);
          said += number(fake().loads) + number(fake().contextAtLaunch == mine) +
                  number(fake().stream == nullptr);
          launch(*m, std::vector{view(b)}, Stream::wrap(d, nullptr));
          return said + number(fake().loads) + number(fake().contextAtLaunch == mine);
        }) == "1021121120");
}

TEST_CASE("Launch: pointers that a GPU cannot use", "[runtime][launch]") {
  auto run = [](Environment e, bool prepared, bool freedLater) {
    return withFake(e, [&] {
      Device d = Device::gpu(0);
      auto m = module(info2d());
      std::vector<float> host(32);
      auto b = std::make_unique<Buffer<float>>(d, 4, 8);
      KernelArg good = view(*b), bad = freedLater ? good : tensor(host.data(), {4, 8});
      std::string said;
      if (prepared) {
        PreparedLaunch call(m, std::vector{bad});
        if (freedLater) {
          call(d.stream());
          b.reset();
        }
        said = thrown([&] { call(d.stream()); });
      } else {
        if (freedLater) {
          launch(*m, std::vector{good}, d.stream());
          b.reset();
        }
        said = thrown([&] { launch(*m, std::vector{bad}, d.stream()); });
      }
      return said + " " + number(fake().launches);
    });
  };
  for (bool prepared : {false, true}) {
    std::string host = run({}, prepared, false);
    CHECK(has(host, "argument 0 has dims [4, 8] and points to 0x"));
    CHECK(has(host, "which is host memory or freed memory, and the launch is on GPU 0 [host_pointer]"));
    CHECK(has(host, "copy the elements into a Buffer of the device"));
    CHECK(host.substr(host.size() - 2) == " 0");
    // Later launches trust what they saw, unless told not to.
    CHECK(run({}, prepared, true) == "nothing thrown 2");
    std::string freed = run({{"SECTILE_CHECK", "pointers"}}, prepared, true);
    CHECK(has(freed, "[host_pointer]"));
    CHECK(freed.substr(freed.size() - 2) == " 1");
  }
}

TEST_CASE("Launch: an argument without elements is checked once it has some", "[runtime][launch]") {
  CHECK(
      has(withFake({},
                   [] {
                     LaunchInfo info = info2d();
                     info.argRanks = {2, 1};
                     auto m = module(info);
                     Device d = Device::gpu(0);
                     Buffer<float> b(d, 4, 8);
                     float host[3];
                     launch(*m, std::vector{view(b), tensor(nullptr, {0})}, d.stream());
                     return thrown([&] { launch(*m, std::vector{view(b), tensor(host, {3})}, d.stream()); });
                   }),
          "argument 1 has dims [3] and points to"));
}

TEST_CASE("Launch: memory of another GPU", "[runtime][launch]") {
  auto run = [](bool prepared) {
    return withFake({{"FAKECUDA_DEVICES", "3"}}, [&] {
      Buffer<float> b(Device::gpu(2), 4, 8);
      auto m = module(info2d());
      if (!prepared)
        return thrown([&] { launch(*m, std::vector{view(b)}, Device::gpu(1).stream()); });
      // A prepared call is checked again when it goes to another device.
      PreparedLaunch call(m, std::vector{view(b)});
      call(Device::gpu(2).stream());
      return thrown([&] { call(Device::gpu(1).stream()); });
    });
  };
  for (bool prepared : {false, true}) {
    std::string said = run(prepared);
    CHECK(has(said, "argument 0 is in the memory of GPU 2 and the launch is on GPU 1 [pointer_device]"));
    CHECK(has(said, "launch on a stream of the GPU that holds the tensors"));
  }
}

TEST_CASE("Launch: managed memory is at home on every GPU", "[runtime][launch]") {
  CHECK(withFake({{"FAKECUDA_DEVICES", "2"}, {"FAKECUDA_MANAGED", "1"}}, [] {
          Buffer<float> b(Device::gpu(0), 4, 8);
          auto m = module(info2d());
          return thrown([&] { launch(*m, std::vector{view(b)}, Device::gpu(1).stream()); });
        }) == "nothing thrown");
}

TEST_CASE("Launch: a device that is lost says so at whatever call comes next", "[runtime][launch]") {
  CHECK(has(withFake({},
                     [] {
                       Device d = Device::gpu(0);
                       Buffer<float> b(d, 4, 8);
                       auto m = module(info2d(), "culprit");
                       launch(*m, std::vector{view(b)}, d.stream());
                       const char *all =
                           "cuCtxPushCurrent=700,cuLaunchKernel=700,cuMemAlloc=700,cuStreamSynchronize=700,"
                           "cuMemcpyDtoHAsync=700,cuStreamCreate=700";
                       setenv("FAKECUDA_FAIL", all, 1);
                       std::string said;
                       for (const std::string &one :
                            {thrown([&] { launch(*m, std::vector{view(b)}, d.stream()); }),
                             thrown([&] { b.toHost(); }), thrown([&] { d.stream().synchronize(); }),
                             thrown([&] { Buffer<float>(d, 1); }), thrown([&] { Stream other(d); })})
                         said += one.find("culprit") != one.npos && one.find("[device_fault]") != one.npos
                                     ? "1"
                                     : "0" + one;
                       return said;
                     }),
            "11111"));
}

TEST_CASE("Launch: a fault names the kernels that were under way", "[runtime][launch]") {
  CHECK(has(withFake({},
                     [] {
                       Device d = Device::gpu(0);
                       Buffer<float> b(d, 4, 8);
                       auto first = module(info2d(), "finished"), second = module(info2d(), "softmax"),
                            third = module(info2d(), "matmul");
                       launch(*first, std::vector{view(b)}, d.stream());
                       d.stream().synchronize();
                       launch(*second, std::vector{view(b)}, d.stream());
                       launch(*third, std::vector{view(b)}, d.stream());
                       launch(*third, std::vector{view(b)}, d.stream());
                       setenv("FAKECUDA_FAIL", "cuStreamSynchronize=700", 1);
                       return thrown([&] { d.stream().synchronize(); });
                     }),
            "newest last: softmax, matmul, matmul [device_fault]"));
  CHECK(has(withFake({},
                     [] {
                       Device d = Device::gpu(0);
                       Buffer<float> b(d, 4, 8);
                       auto m = module(info2d(), "k");
                       for (int i = 0; i < 20; ++i)
                         launch(*m, std::vector{view(b)}, d.stream());
                       setenv("FAKECUDA_FAIL", "cuStreamSynchronize=719", 1);
                       return thrown([&] { b.toHost(); });
                     }),
            "newest last: k, k, k, k, k, k, k, k [device_fault]"));
}

TEST_CASE("Launch: code and limits that do not fit the device", "[runtime][launch]") {
  auto run = [](Environment e, const std::function<void(Artifact &)> &change) {
    return withFake(e, [&] {
      auto a = artifact(info2d());
      change(*a);
      auto m = std::make_shared<Module>("demo", a);
      Device d = Device::gpu(0);
      Buffer<float> b(d, 4, 8);
      std::string said = thrown([&] { launch(*m, std::vector{view(b)}, d.stream()); });
      return said + " " + number(fake().launches) + number(fake().modulesLoaded);
    });
  };
  auto same = [](Artifact &) {};
  CHECK(has(run({}, [](Artifact &a) { a.arch = "sm_100a"; }),
            "the code is for sm_100a and GPU 0 (Fake H200) runs sm_90a"));
  CHECK(has(run({}, [](Artifact &a) { a.launch.sharedBytes = 300000; }),
            "the tiles need 300000 bytes of shared memory per block and GPU 0 has 232448 [launch_limits]"));
  CHECK(has(run({}, [](Artifact &a) { a.launch.threads = 2048; }),
            "the schedule has 2048 threads per block and GPU 0 allows 1024 [launch_limits]"));
  std::string registers = run({{"FAKECUDA_THREADS", "96"}}, same);
  CHECK(has(registers,
            "the schedule has 128 threads per block and its 168 registers per thread leave room for 96"));
  CHECK(registers.substr(registers.size() - 3) == " 00");
  CHECK(has(run({{"FAKECUDA_FAIL", "cuLaunchKernel=701"}}, same), "128 threads with 168 registers each"));
  std::string symbol = run({}, [](Artifact &a) { a.launch.symbol = "missing"; });
  CHECK(has(symbol, "internal error: cuModuleGetFunction(missing) failed with"));
  CHECK(symbol.substr(symbol.size() - 3) == " 00");
}

TEST_CASE("Launch: the driver takes the PTX when it refuses the cubin, and says why it refuses both",
          "[runtime][launch]") {
  auto run = [](Environment e, bool cubin) {
    return withFake(e, [&] {
      auto a = artifact(info2d());
      if (!cubin)
        a->cubin.clear();
      auto m = std::make_shared<Module>("demo", a);
      Device d = Device::gpu(0);
      Buffer<float> b(d, 4, 8);
      std::string said = thrown([&] { launch(*m, std::vector{view(b)}, d.stream()); });
      return said + " " + number(fake().launches) + number(fake().loads);
    });
  };
  CHECK(run({}, true) == "nothing thrown 11");
  CHECK(run({}, false) == "nothing thrown 11");
  CHECK(run({{"FAKECUDA_FAIL", "cubin=209"}}, true) == "nothing thrown 12");
  std::string both = run({{"FAKECUDA_FAIL", "cubin=200,ptx=218"}}, true);
  CHECK(has(both, "the driver refuses the code for sm_90a: unknown CUDA error (218)"));
  CHECK(has(both, "its assembler says: ptxas fatal: fake [load_failed]"));
  CHECK(has(both, "update the NVIDIA driver"));
  CHECK(has(run({{"FAKECUDA_FAIL", "cubin=2"}}, true), "[out_of_memory]"));
}

TEST_CASE("Launch: what a capture saw stays loaded", "[runtime][launch]") {
  auto run = [](const char *capturing) {
    return withFake({{"FAKECUDA_CAPTURE", capturing}}, [] {
      Device d = Device::gpu(0);
      Buffer<float> b(d, 4, 8);
      auto m = module(info2d());
      launch(*m, std::vector{view(b)}, d.stream());
      std::string said = number(m->isPinned());
      m.reset();
      return said + number(fake().modulesLoaded);
    });
  };
  CHECK(run("0") == "00");
  CHECK(run("1") == "11");
}

TEST_CASE("Launch: GPU code on the interpreter is our mistake", "[runtime][launch]") {
  float x[32];
  auto m = module(info2d());
  CHECK(has(thrown([&] {
              launch(*m, std::vector{tensor(x, {4, 8})}, Device::interpreter().stream());
            }),
            "internal error: kernel demo: GPU code was launched on the interpreter"));
}

TEST_CASE("Launch: tensor maps are encoded again for other tensors alone, without allocation", "[runtime][launch][maps]") {
  CHECK(withFake({}, [] {
          Stream s(Device::gpu(0));
          Buffer<bf16> x(s, 24, 96), y(s, 80, 32), z(s, 24, 96);
          LaunchInfo info = info2d();
          info.argRanks = {2, 2};
          for (int arg : {0, 1})
            info.maps.push_back({.arg = arg, .dtype = DType::bf16, .order = {1, 0}, .box = {32, 16}, .swizzle = 64,
                                 .limits = {"inf", "dim(1,1)"}});
          auto m = module(info);
          const std::vector args{view(x), view(y)}, others{view(z), view(y)};
          PreparedLaunch call(m, args);
          call(s);
          launch(*m, args, s);
          const int first = fake().encodedMaps;
          const long before = allocations;
          for (int i = 0; i < 10; ++i) {
            launch(*m, args, s);
            call(s);
          }
          const int warm = fake().encodedMaps;
          launch(*m, others, s);
          const bool moved = [&] {
            void *address;
            std::memcpy(&address, fake().params + 128, sizeof address);
            return address == z.data();
          }();
          return number(first) + " " + number(warm) + " " + number(fake().encodedMaps) + " " + number(moved) + " " +
                 number(allocations - before);
        }) == "2 2 4 1 0");
}
