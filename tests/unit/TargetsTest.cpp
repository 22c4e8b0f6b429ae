// SPDX-License-Identifier: Apache-2.0
#include <sectile/Targets.h>

#include <catch2/catch.hpp>

#include <set>
#include <string>

using namespace sectile;

TEST_CASE("every row of the target table is consistent", "[targets]") {
  std::set<std::string_view> archs;
  for (const Target &t : targets()) {
    INFO(t.arch);
    CHECK(archs.insert(t.arch).second);
    CHECK(findTarget(t.arch) == &t);
    CHECK(targetForComputeCapability(t.major, t.minor) == &t);
    const std::string number = std::to_string(t.major) + std::to_string(t.minor);
    CHECK((t.arch == "sm_" + number || t.arch == "sm_" + number + "a"));
    CHECK(t.ptxVersion >= 70);
    CHECK(t.sharedBytesPerBlock == t.sharedBytesPerSm - t.sharedBytesReserved);
    CHECK(t.threadsPerSm % t.warpSize == 0);
    CHECK(t.threadsPerBlock <= t.threadsPerSm);
    CHECK(t.clusterBlocks <= t.clusterBlocksOptIn);
    CHECK((t.clusterBlocks > 1) == t.has(Feature::clusters));
    CHECK((!t.has(Feature::multicast) || t.has(Feature::tma)));
    CHECK((!t.has(Feature::tma) || t.has(Feature::mbarrier)));
    CHECK((t.peak.fp8 > 0) == t.has(Feature::mmaSyncFp8));
    CHECK_FALSE((t.has(Feature::wgmma) && t.has(Feature::tcgen05)));
    // Arch-specific instructions exist only under the `a` suffix.
    if (t.has(Feature::wgmma) || t.has(Feature::tcgen05) || t.has(Feature::blockScaleMma) ||
        t.has(Feature::setmaxnreg))
      CHECK(t.arch.back() == 'a');
    CHECK(t.denseTflops(DType::bf16) == t.peak.f16);
    CHECK(t.denseTflops(DType::f32) == t.peak.f32);
    CHECK(t.denseTflops(DType::f32, true) == t.peak.tf32);
    CHECK(t.denseTflops(DType::e5m2) == t.peak.fp8);
    CHECK(t.denseTflops(DType::u8) == t.peak.int8);
    CHECK(t.denseTflops(DType::index) == 0);
    CHECK(t.memoryGBs > 0);
    CHECK(t.l2Bytes > 0);
  }
  CHECK(archs == std::set<std::string_view>{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a",
                                            "sm_110a", "sm_120a", "sm_121a"});
}

TEST_CASE("known facts of the targets", "[targets]") {
  const Target &h200 = *findTarget("sm_90a");
  CHECK(h200.sharedBytesPerBlock == 232448);
  CHECK(h200.smCount == 132);
  CHECK(h200.registersPerSm == 65536);
  CHECK(h200.has(Feature::wgmma));
  // 4096 floating-point operations per clock and SM at 1.83 GHz.
  CHECK(h200.denseTflops(DType::bf16) == Approx(4096e-12 * 1.83e9 * 132).epsilon(0.01));
  const Target &rtx = *findTarget("sm_120a");
  CHECK_FALSE(rtx.has(Feature::wgmma));
  CHECK_FALSE(rtx.has(Feature::tcgen05));
  CHECK_FALSE(rtx.has(Feature::multicast));
  CHECK_FALSE(rtx.has(Feature::gather4));
  CHECK(rtx.has(Feature::tma));
  CHECK(rtx.has(Feature::setmaxnreg));
  CHECK(rtx.has(Feature::mmaSyncBlockScale));
  CHECK(rtx.clusterBlocks == 8);
  CHECK(rtx.sharedBytesPerBlock == 99 * 1024);
  CHECK_FALSE(findTarget("sm_80")->has(Feature::mmaSyncFp8));
  CHECK(findTarget("sm_100a")->has(Feature::tcgen05Int8));
  CHECK_FALSE(findTarget("sm_103a")->has(Feature::tcgen05Int8));
}

TEST_CASE("devices find the code that runs on them", "[targets]") {
  CHECK(findTarget("sm_90") == nullptr);
  CHECK(findTarget("") == nullptr);
  CHECK(targetForComputeCapability(7, 5) == nullptr);
  CHECK(targetForComputeCapability(9, 1) == nullptr); // sm_90a code runs on 9.0 alone
  CHECK(targetForComputeCapability(10, 1) == nullptr);
  REQUIRE(targetForComputeCapability(8, 7) != nullptr);
  CHECK(targetForComputeCapability(8, 7)->arch == "sm_86");
  CHECK(targetForComputeCapability(12, 1)->arch == "sm_121a");
}

TEST_CASE("features have distinct names", "[targets]") {
  std::set<std::string_view> names;
  for (int i = 0; i < numFeatures; ++i)
    CHECK(names.insert(name(Feature(i))).second);
  CHECK(name(Feature::wgmma) == "wgmma");
  CHECK(name(Feature::reduxF32) == "redux_f32");
  CHECK(name(Feature::setmaxnreg) == "setmaxnreg");
}
