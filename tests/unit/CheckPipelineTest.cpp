// SPDX-License-Identifier: Apache-2.0
/// \file CheckPipeline against the executor: every op of pipes and products of a lowered kernel is left out, doubled, moved
/// by one and given other numbers, one change at a time. A change after which the executor meets a fault, or a wrong
/// result, for any number of trips, must not pass the proof.
#include "passes/Passes.h"
#include "tests/support/PipedProducts.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include <functional>
#include <map>
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

/// The rule by which CheckPipeline refuses the kernel, or "".
std::string refusal(LoweredProduct &k) {
  std::string said;
  mlir::ScopedDiagnosticHandler handler(&k.kernel.context, [&](mlir::Diagnostic &d) { said += d.str() + "\n"; });
  mlir::PassManager pm(&k.kernel.context);
  pm.enableVerifier(false); // what the verifier finds is no part of this proof
  pm.addNestedPass<mlir::func::FuncOp>(passes::createCheckPipelinePass());
  if (mlir::succeeded(pm.run(*k.kernel.module)))
    return "";
  const std::size_t at = said.find("check_pipeline_");
  return at == std::string::npos ? said : said.substr(at, said.find(']', at) - at);
}

/// What goes wrong with `trips` steps of 64 along K, with either role ahead; "" if nothing does.
std::string meets(LoweredProduct &k, const PipedProduct &kernel, std::int64_t trips) {
  const std::int64_t depth = 64 * trips;
  for (bool consumersFirst : {false, true}) {
    Matrix<bf16> a(136, depth, 1), b(kernel.bRows ? 128 : depth, kernel.bRows ? depth : 128, 2);
    Matrix<f32> c(136, 128, 3);
    tgpu::ExecResult r = k.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
    if (r.fault)
      return r.fault->text();
    for (std::int64_t i = 0; i < 136; i += 27)
      for (std::int64_t j = 0; j < 128; j += 9) {
        double sum = 0;
        for (std::int64_t x = 0; x < depth; ++x)
          sum += (kernel.aComputed ? std::abs(a.at(i, x)) : a.at(i, x)) * (kernel.bRows ? b.at(j, x) : b.at(x, j));
        if (c.at(i, j) != sum)
          return "a wrong sum";
      }
  }
  return "";
}

bool isOfPipes(mlir::Operation *op) {
  return llvm::isa<tgpu::PipeCreateOp, tgpu::PipeAcquireOp, tgpu::TmaLoadOp, tgpu::AsyncLoadOp, tgpu::AsyncArriveOp,
                   tgpu::PipeCommitOp, tgpu::PipeWaitOp, tgpu::PipeReleaseOp, tgpu::WgmmaWaitOp>(op) ||
         (llvm::isa<tgpu::FenceAsyncOp>(op) && (llvm::isa_and_nonnull<tgpu::PipeWaitOp>(op->getPrevNode()) ||
                                                llvm::isa_and_nonnull<tgpu::PipeReleaseOp>(op->getNextNode())));
}

std::vector<mlir::Operation *> opsOfPipes(LoweredProduct &k) {
  std::vector<mlir::Operation *> ops;
  k.kernel.module->walk([&](mlir::Operation *op) {
    if (isOfPipes(op))
      ops.push_back(op);
  });
  return ops;
}

struct Change {
  std::string name;
  std::function<bool(LoweredProduct &)> make; ///< false: it does not apply
};

/// Ops see the values they use, and each is one that its verifier takes.
bool isWellFormed(LoweredProduct &k) {
  mlir::ScopedDiagnosticHandler quiet(&k.kernel.context, [](mlir::Diagnostic &) {});
  return mlir::succeeded(mlir::verify(*k.kernel.module));
}

/// All single changes of a kernel of this kind.
std::vector<Change> changesOf(const PipedProduct &kernel) {
  LoweredProduct k(kernel);
  const std::vector<mlir::Operation *> ops = opsOfPipes(k);
  std::vector<Change> changes;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::string name = fmt::format("{} {}", i, ops[i]->getName().getStringRef().str());
    changes.push_back({name + " left out", [i](LoweredProduct &k) {
                         mlir::Operation *op = opsOfPipes(k)[i];
                         if (auto wait = llvm::dyn_cast<tgpu::WgmmaWaitOp>(op))
                           wait->replaceAllUsesWith(wait.getValues());
                         if (!op->use_empty())
                           return false;
                         op->erase();
                         return true;
                       }});
    changes.push_back({name + " doubled", [i](LoweredProduct &k) {
                         mlir::Operation *op = opsOfPipes(k)[i];
                         mlir::OpBuilder b(op);
                         b.clone(*op);
                         return !llvm::isa<tgpu::PipeCreateOp>(op);
                       }});
    changes.push_back({name + " to the pair, or no longer", [i](LoweredProduct &k) {
                         auto release = llvm::dyn_cast<tgpu::PipeReleaseOp>(opsOfPipes(k)[i]);
                         if (release)
                           release.setPair(!release.getPair());
                         return bool(release);
                       }});
    changes.push_back({name + " alone", [i](LoweredProduct &k) {
                         auto load = llvm::dyn_cast<tgpu::TmaLoadOp>(opsOfPipes(k)[i]);
                         return load && load.removeMulticastAttr();
                       }});
    for (bool later : {false, true})
      changes.push_back({name + (later ? " one op later" : " one op earlier"), [i, later](LoweredProduct &k) {
                           mlir::Operation *op = opsOfPipes(k)[i], *other = later ? op->getNextNode() : op->getPrevNode();
                           if (!other || other->hasTrait<mlir::OpTrait::IsTerminator>())
                             return false;
                           later ? op->moveAfter(other) : op->moveBefore(other);
                           return true;
                         }});
    for (mlir::NamedAttribute attribute : ops[i]->getAttrs()) {
      auto number = llvm::dyn_cast<mlir::IntegerAttr>(attribute.getValue());
      if (!number || attribute.getName() == "offset" || attribute.getName() == "barriers")
        continue;
      for (std::int64_t more : {-1, 1, 16}) {
        const std::int64_t value = number.getInt() + more;
        if (value < 0)
          continue;
        changes.push_back({fmt::format("{} with {} = {}", name, attribute.getName().str(), value),
                           [i, value, key = attribute.getName().str()](LoweredProduct &k) {
                             mlir::Operation *op = opsOfPipes(k)[i];
                             auto old = op->getAttrOfType<mlir::IntegerAttr>(key);
                             op->setAttr(key, mlir::IntegerAttr::get(old.getType(), value));
                             return true;
                           }});
      }
    }
  }
  return changes;
}

} // namespace

TEST_CASE("no change that the executor finds wrong for some number of trips is proved right", "[passes][pipes]") {
  // Zero, one, two, as many as slots, one more, many.
  const std::vector<std::int64_t> allTrips = {0, 1, 2, 3, 4, 7};
  std::map<std::string, int> rules;
  std::map<std::int64_t, int> firstSeen; // by number of trips
  int wrong = 0, careful = 0;
  for (const PipedProduct &kernel : {PipedProduct{}, PipedProduct{.bRows = true, .aComputed = true}, PipedProduct{.async = 2},
                                     PipedProduct{.alignB = 8}, PipedProduct{.multicast = 2}}) {
    {
      LoweredProduct k(kernel);
      REQUIRE(refusal(k) == "");
      for (std::int64_t trips : allTrips)
        REQUIRE(meets(k, kernel, trips) == "");
    }
    for (const Change &change : changesOf(kernel)) {
      LoweredProduct k(kernel);
      if (!change.make(k) || !isWellFormed(k))
        continue;
      const std::string rule = refusal(k);
      std::string met;
      for (std::int64_t trips : allTrips)
        if (std::string what = meets(k, kernel, trips); !what.empty()) {
          if (met.empty())
            ++firstSeen[trips];
          met += fmt::format("{} trips: {}\n", trips, what);
        }
      INFO(change.name << "\n" << met);
      if (!met.empty()) {
        CHECK(rule != "");
        ++rules[rule];
        ++wrong;
      } else {
        careful += !rule.empty();
      }
    }
  }
  INFO("wrong " << wrong << ", refused although nothing was met " << careful);
  // The changes are of many kinds, and some are met with no trip, with one, and with many alone.
  CHECK(wrong >= 40);
  CHECK(rules.size() >= 8);
  CHECK(rules.count("check_pipeline_c16"));
  CHECK(rules.count("check_pipeline_c17"));
  CHECK(rules.count("check_pipeline_c19"));
  CHECK(rules.count("check_pipeline_c20"));
  CHECK(rules.count("check_pipeline_c21"));
  CHECK(firstSeen.size() >= 3);
}
