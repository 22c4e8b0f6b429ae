// SPDX-License-Identifier: Apache-2.0
// Graphs on a GPU: random chains fused and not, a graph in a capture, one graph on several streams at once.
#include "tests/cases/CudaDriver.h"
#include "tests/support/GraphKernels.h"
#include "tests/support/RunOnGpu.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

using namespace sectile;
using namespace sectile::test;
using sectile::testing::onGpu;

namespace {

/// Copies of host memory on a GPU, copied back when the work is done.
class OnDevice {
public:
  explicit OnDevice(const Stream &stream) : stream(stream) {}
  template <int R, class T> Tensor<T, R> view(Memory<T> &memory) {
    auto copy = std::make_shared<Buffer<T>>(stream, std::span<const std::int64_t>(memory.dims));
    copy->copyFrom(memory.data, stream);
    T *host = memory.data.data();
    const std::size_t count = memory.data.size();
    back.push_back([=, this] { copy->copyTo(std::span<T>(host, count), stream); });
    return Tensor<T, R>(*copy);
  }
  void copyBack() {
    for (const auto &copy : back)
      copy();
  }

private:
  Stream stream;
  std::vector<std::function<void()>> back;
};

RandomChain::Result resultOf(RandomChain &chain, const Stream &stream, Fuse how) {
  OnDevice place(stream);
  return chain.runOn(place, [&](sectile::Graph &g, detail::GraphState &) {
    g.build(how)(stream);
    place.copyBack();
  });
}

} // namespace

TEST_CASE("graph: 300 random chains on the GPU, fused and not", "[graph][gpu]") {
  CHECK(onGpu([] {
          std::string wrong;
          std::mutex mutex;
          std::atomic<unsigned> next{0};
          std::vector<std::thread> threads;
          for (int t = 0; t < 8; ++t)
            threads.emplace_back([&] {
              Stream stream = Device::gpu(0).stream();
              for (unsigned seed; (seed = next++) < 300;) {
                std::string what;
                try {
                  RandomChain chain(seed);
                  if (!(resultOf(chain, stream, fuse::automatic | fuse::keepRounding) == resultOf(chain, stream, fuse::none)))
                    what = "differs";
                } catch (const std::exception &e) {
                  what = e.what();
                }
                if (!what.empty()) {
                  std::lock_guard lock(mutex);
                  wrong += "seed " + std::to_string(seed) + ": " + what + "\n";
                }
              }
            });
          for (std::thread &t : threads)
            t.join();
          return wrong;
        }) == "");
}

TEST_CASE("graph: a graph with a workspace can be captured, and has other memory there than beside it", "[graph][gpu]") {
  CHECK(onGpu([] {
          const std::int64_t n = 1024;
          Stream stream = Device::gpu(0).stream(), other = Device::gpu(0).stream();
          Memory<f32> host({n, n}, 1);
          Buffer<f32> x(stream, n, n), y(stream, n, n);
          x.copyFrom(host.data);
          y.fillBytes(0);
          sectile::Graph g("captured");
          g.output(turn(turn(turn(g.input<2>(x)))), Tensor<f32, 2>(y));
          Composed call = g.build(fuse::none);
          call(stream); // loads the code
          stream.synchronize();
          const std::vector<float> want = y.toHost();
          y.fillBytes(0);
          cases::CudaDriver cuda;
          cases::DriverGraph captured(cuda, stream.native(), [&] { call(stream); });
          for (int i = 0; i < 10; ++i) {
            captured.launch(other.native());
            call(stream);
          }
          stream.synchronize();
          other.synchronize();
          std::string wrong = call.workspaceBytes() == 2 * n * n * 4 ? "" : "workspace ";
          for (std::size_t i = 0; i < want.size(); ++i)
            if (want[i] != host.data[i % n * n + i / n])
              return wrong + "direct";
          return y.toHost() == want ? wrong : wrong + "captured";
        }) == "");
}
