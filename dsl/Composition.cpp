// SPDX-License-Identifier: Apache-2.0
#include "dsl/Composition.h"

#include "dsl/Diagnostics.h"
#include "dsl/Trace.h"
#include "ir/base/Artifact.h"
#include "passes/FuseKernels.h"
#include "passes/LaneBounds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

using namespace mlir;

namespace sectile::detail {
namespace {

bool isConstant(const ParamDesc &p) { return p.kind == ParamDesc::Kind::constant; }

func::FuncOp kernelOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

llvm::SmallVector<int64_t> gridSizes(func::FuncOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (auto grid = llvm::dyn_cast<tileir::GridOp>(op))
      return llvm::SmallVector<int64_t>(grid.getSizes());
  return {};
}

/// One trace of a part.
struct TracedPart {
  OwningOpRef<ModuleOp> module;
  Config config;
  std::vector<int> params; ///< per parameter that of the composed kernel; of one without memory, that whose covered lengths are its own
  bool isCovered = true;   ///< there is one for each that is covered
};

/// Combinations of a part's numbers that are traced, and of all parts that are joined.
constexpr std::size_t mostTries = 256;

class Composer {
public:
  Composer(MLIRContext &context, const Composition &c, std::span<const KernelArg> args, Config &config)
      : context(context), c(c), args(args), config(config) {}

  std::variant<ComposedModule, CompositionRefusal> run() {
    checkNames();
    choices.resize(c.parts.size());
    module = ModuleOp::create(UnknownLoc::get(&context));
    // With the leader's first numbers; with others of its list only where nobody can follow these.
    for (std::size_t n = 0; (leading = choice(c.leader, n)); ++n) {
      sizes = gridSizes(kernelOf(*leading->module));
      if (place(c.parts.size()))
        break;
      if (refusedAt.second)
        return *refusal;
    }
    if (!joined)
      return *refusal;
    finish();
    config.forgetAsked();
    for (std::size_t i = 0; i < c.parts.size(); ++i)
      config.adopt(c.parts[i].prefix, taken[c.parts.size() - 1 - i]->config, taken[c.parts.size() - 1 - i]->params);
    return ComposedModule{std::move(module), std::move(report)};
  }

private:
  void checkNames() const {
    for (const auto &[name, value] : config.values()) {
      const bool isKnown = name.find('.') == std::string::npos ||
                           std::any_of(c.parts.begin(), c.parts.end(), [&](const CompositionPart &p) {
                             return !p.prefix.empty() && name.starts_with(p.prefix);
                           });
      if (value.byHand && !isKnown)
        throw UserError({SourceLoc(c.desc.where), c.name, "Config",
                         fmt::format("\"{}\" is set to {}, but no part of the kernel has that name", name, value.value),
                         "config_unknown", "write a number of the part that leads as it is, others as part.number"});
    }
  }

  /// What is set by hand for a part: "BM" for the leader, "norm.BR" for the part with the prefix "norm.".
  Config handConfig(std::size_t part) const {
    Config own;
    const std::string &prefix = c.parts[part].prefix;
    for (const auto &[name, value] : config.values())
      if (value.byHand && (prefix.empty() ? name.find('.') == std::string::npos : name.starts_with(prefix)))
        own.set(std::string_view(name).substr(prefix.size()), value.value);
    return own;
  }

  /// The parameter and axis of the composed kernel with the length of this axis.
  std::pair<int, int> standIn(const CompositionValue &value, int axis) const {
    for (const CompositionValue &other : c.values)
      for (std::size_t d = 0; other.param >= 0 && d < other.lengths.size(); ++d)
        if (other.lengths[d] == value.lengths[static_cast<std::size_t>(axis)])
          return {other.param, static_cast<int>(d)};
    throw InternalError(fmt::format("kernel {}: a length of a tensor between its parts is no other tensor's", c.name));
  }

  KernelArg argOf(int number) const {
    const CompositionValue &value = c.values[static_cast<std::size_t>(number)];
    if (value.param >= 0)
      return args[static_cast<std::size_t>(value.param)];
    KernelArg arg;
    arg.dtype = value.desc.dtype;
    arg.rank = value.desc.rank;
    std::int64_t stride = 1;
    for (int d = arg.rank - 1; d >= 0; --d) {
      const auto [param, axis] = standIn(value, d);
      arg.dims[static_cast<std::size_t>(d)] = args[static_cast<std::size_t>(param)].dims[static_cast<std::size_t>(axis)];
      arg.strides[static_cast<std::size_t>(d)] = stride;
      stride *= std::max<std::int64_t>(arg.dims[static_cast<std::size_t>(d)], 1);
    }
    return arg;
  }

  TracedPart tracePart(std::size_t i, Config own) {
    const CompositionPart &part = c.parts[i];
    std::vector<KernelArg> partArgs;
    for (int number : part.values)
      partArgs.push_back(argOf(number));
    TracedPart traced{trace(context, part.kernel, partArgs, own), own, {}, true};
    // The key of a variant has the tile of the tensor that stands for one without memory: no other tile may come of it.
    bool again = false;
    for (std::size_t p = 0; p < part.values.size(); ++p) {
      const CompositionValue &value = c.values[static_cast<std::size_t>(part.values[p])];
      traced.params.push_back(value.param);
      std::vector<std::pair<std::string, Config::Value>> covers;
      for (const auto &[name, number] : traced.config.values())
        if (value.param < 0 && number.coverArg == static_cast<int>(p))
          covers.emplace_back(name, number);
      if (covers.empty())
        continue;
      for (const CompositionValue &other : c.values)
        if (traced.params.back() < 0 && other.param >= 0 && std::all_of(covers.begin(), covers.end(), [&](const auto &named) {
              const auto axis = static_cast<std::size_t>(named.second.coverAxis);
              return axis < other.lengths.size() && other.lengths[axis] == value.lengths[axis];
            }))
          traced.params.back() = other.param;
      traced.isCovered &= traced.params.back() >= 0;
      for (const auto &[name, number] : covers) {
        if (number.byHand || traced.params.back() < 0)
          continue;
        const int tile = coverBucket(coverLength(args[static_cast<std::size_t>(traced.params.back())], number.coverAxis));
        again |= tile != number.value;
        own.set(name, tile);
      }
    }
    if (again)
      traced.module = trace(context, part.kernel, partArgs, own), traced.config = own;
    return traced;
  }

  /// What is known of the numbers of a part: its traces with each combination, made when they are asked for.
  struct Choices {
    struct Open {
      std::string name;
      std::vector<int> values;
    };
    std::vector<Open> open;
    std::size_t combinations = 1;
    std::map<std::size_t, TracedPart> traced;
  };

  /// The part with combination n of its numbers, the first values first. Null behind the last.
  const TracedPart *choice(std::size_t part, std::size_t n) {
    Choices &known = choices[part];
    if (known.traced.empty()) {
      const TracedPart &first = known.traced.emplace(0, tracePart(part, handConfig(part))).first->second;
      for (const auto &[name, value] : first.config.values())
        if (!value.byHand && value.choices.size() > 1) {
          known.open.push_back({name, value.choices});
          known.combinations *= value.choices.size();
        }
    }
    if (n >= known.combinations || n >= mostTries)
      return nullptr;
    if (auto found = known.traced.find(n); found != known.traced.end())
      return &found->second;
    Config own = handConfig(part);
    std::size_t rest = n;
    for (const Choices::Open &o : known.open) {
      own.set(o.name, o.values[rest % o.values.size()]);
      rest /= o.values.size();
    }
    return &known.traced.emplace(n, tracePart(part, std::move(own))).first->second;
  }

  /// Joins the first `count` parts to those behind them, the last of them first, each with the first combination of its
  /// numbers that can be joined. From behind, so that a part meets all that read what it stores as one kernel. `isHopeless`: one that is placed
  /// fits nobody; what is left to find is who says so.
  bool place(std::size_t count, bool isHopeless = false) {
    if (count == 0)
      return true;
    const std::size_t i = count - 1;
    for (std::size_t n = 0; const TracedPart *next = i == c.leader ? (n ? nullptr : leading) : choice(i, n); ++n) {
      const llvm::SmallVector<int64_t> own = gridSizes(kernelOf(*next->module));
      const bool isAlike = own == llvm::ArrayRef<int64_t>(sizes), mayJoin = isAlike || mayRunInside(i, *next, own);
      const bool areAlike = isAlike && std::all_of(taken.begin(), taken.end(), [&](const TracedPart *p) {
        return gridSizes(kernelOf(*p->module)) == llvm::ArrayRef<int64_t>(sizes);
      });
      if (n > 0 && isHopeless)
        break;
      if ((n > 0 && !mayJoin) || tries >= mostTries)
        continue;
      tries += mayJoin;
      OwningOpRef<func::FuncOp> before(joined ? joined.clone() : func::FuncOp());
      const CompositionReport reported = report;
      if (add(i, *next, areAlike)) {
        taken.push_back(next);
        if (place(i, isHopeless || !mayJoin))
          return true;
        taken.pop_back();
        joined.erase();
        joined = before.release();
        if (joined)
          module->push_back(joined);
        report = reported;
      }
    }
    return false;
  }

  /// Whether this part could run where those behind it load, or the leader where this one loads: then tiles have the sizes of
  /// the programs that store them.
  bool mayRunInside(std::size_t i, const TracedPart &part, llvm::ArrayRef<int64_t> own) {
    const std::vector<int> &values = c.parts[i].values;
    if (joined && loadsTiles(joined, own, [&](unsigned arg) {
          return llvm::is_contained(values, joined.getArgAttrOfType<IntegerAttr>(arg, passes::chainTensorAttr).getInt());
        }))
      return true;
    return i > c.leader && loadsTiles(kernelOf(*part.module), sizes, [](unsigned) { return true; });
  }
  /// Whether there is a load, of such an argument, with an axis of each of these sizes.
  template <class F> static bool loadsTiles(func::FuncOp func, llvm::ArrayRef<int64_t> axes, F &&isArg) {
    return func
        .walk([&](tileir::LoadOp load) {
          auto arg = llvm::dyn_cast<BlockArgument>(load.getX());
          llvm::SmallVector<int64_t> shape(tileir::shapeOf(load.getType()));
          bool has = arg && arg.getOwner() == &func.getBody().front() && isArg(arg.getArgNumber());
          for (int64_t size : axes) {
            auto *at = llvm::find(shape, size);
            if (has &= at != shape.end(); has)
              shape.erase(at);
          }
          return has ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// The refusal that got furthest; of several the first whose programs are alike.
  void refuseAt(std::size_t i, bool isAlike, CompositionRefusal why) {
    const std::pair<std::size_t, bool> rank(c.parts.size() - i, isAlike);
    if (refusal && rank <= refusedAt)
      return;
    refusal = std::move(why);
    refusedAt = rank;
  }

  /// Joins a traced part to those behind it.
  bool add(std::size_t i, const TracedPart &part, bool isAlike) {
    if (!part.isCovered) {
      refuseAt(i, isAlike, {SourceLoc(c.parts[i].kernel.where),
                            fmt::format("'{}' covers an axis of a tensor between them, and no other tensor has that axis", c.parts[i].kernel.name)});
      return false;
    }
    func::FuncOp own = kernelOf(*part.module).clone();
    module->push_back(own);
    mark(i, own);
    if (!joined) {
      joined = own;
      return true;
    }
    markTemporary(i);
    own->moveBefore(joined);
    passes::FusionOptions options;
    options.keepRounding = c.keepRounding;
    options.needsForwarding = false;
    auto fused = passes::fuse(own, joined, options);
    if (auto *no = std::get_if<passes::FusionRefusal>(&fused)) {
      refuseAt(i, isAlike, {sourceLocOf(no->at), no->why});
      own.erase();
      return false;
    }
    const auto &yes = std::get<passes::Fusion>(fused);
    joined = yes.kernel;
    auto append = [](std::vector<int> &to, const std::vector<std::int64_t> &from) { to.insert(to.end(), from.begin(), from.end()); };
    append(report.forwarded, yes.forwarded);
    append(report.vanished, yes.vanished);
    append(report.unrounded, yes.unrounded);
    append(report.shared, yes.shared);
    if (yes.inside)
      report.inside.push_back(static_cast<int>(i));
    return true;
  }

  /// Says of each argument which tensor or number of the composition it is.
  void mark(std::size_t i, func::FuncOp func) {
    Builder b(&context);
    unsigned arg = 0;
    for (int number : c.parts[i].values) {
      const CompositionValue &value = c.values[static_cast<std::size_t>(number)];
      if (isConstant(value.desc))
        continue;
      func.setArgAttr(arg, passes::chainTensorAttr, b.getI64IntegerAttr(number));
      if (value.desc.kind == ParamDesc::Kind::tensor) {
        llvm::SmallVector<int64_t> lengths(value.lengths.begin(), value.lengths.end());
        func.setArgAttr(arg, passes::chainLengthsAttr, b.getDenseI64ArrayAttr(lengths));
      }
      ++arg;
    }
  }

  /// Of what is joined, tensors without memory that part i is the first to touch.
  void markTemporary(std::size_t i) {
    Builder b(&context);
    for (unsigned arg = 0; arg < joined.getNumArguments(); ++arg) {
      const auto number = static_cast<int>(joined.getArgAttrOfType<IntegerAttr>(arg, passes::chainTensorAttr).getInt());
      joined.removeArgAttr(arg, b.getStringAttr(passes::chainTemporaryAttr));
      const CompositionValue &value = c.values[static_cast<std::size_t>(number)];
      const bool isFirst = std::none_of(c.parts.begin(), c.parts.begin() + static_cast<std::ptrdiff_t>(i), [&](const CompositionPart &p) {
        return std::find(p.values.begin(), p.values.end(), number) != p.values.end();
      });
      if (value.desc.kind == ParamDesc::Kind::tensor && value.param < 0 && isFirst)
        joined.setArgAttr(arg, passes::chainTemporaryAttr, b.getUnitAttr());
    }
  }

  /// A kernel like any other: no trace of the chain is left. The ops of each part are in the canonical order, part behind part:
  /// what a later part loads is not held in registers through the loops of an earlier one.
  void finish() {
    if (joined.getNumArguments() != static_cast<unsigned>(std::count_if(c.params.begin(), c.params.end(), [](const ParamDesc &p) { return !isConstant(p); })))
      throw InternalError(fmt::format("kernel {}: {} arguments are left of its parts", c.name, joined.getNumArguments()));
    joined.setName(c.name);
    for (unsigned i = 0; i < joined.getNumArguments(); ++i)
      for (llvm::StringRef name : {passes::chainTensorAttr, passes::chainLengthsAttr, passes::chainTemporaryAttr})
        joined.removeArgAttr(i, StringAttr::get(&context, name));
  }

  MLIRContext &context;
  const Composition &c;
  std::span<const KernelArg> args;
  Config &config;
  llvm::SmallVector<int64_t> sizes; ///< of the leader's grid
  OwningOpRef<ModuleOp> module;
  func::FuncOp joined;
  std::vector<Choices> choices;
  const TracedPart *leading = nullptr;   ///< the leader with the numbers that are tried
  std::vector<const TracedPart *> taken; ///< of the parts that are joined, from the last one on
  std::size_t tries = 0;
  CompositionReport report;
  std::optional<CompositionRefusal> refusal;
  std::pair<std::size_t, bool> refusedAt{0, false};
};

/// Everything that two compositions of one meaning have in common.
std::string textOf(const Composition &c) {
  std::string text = fmt::format("{} {}", c.leader, c.keepRounding);
  for (const CompositionPart &p : c.parts)
    text += fmt::format("|{} {}", p.kernel.id, fmt::join(p.values, " "));
  for (const CompositionValue &v : c.values)
    text += fmt::format("|{} {}", v.param, fmt::join(v.lengths, " "));
  return text;
}

} // namespace

const Composition &intern(Composition composition, CodePosition where) {
  static std::mutex mutex;
  static auto *known = new std::map<std::string, std::unique_ptr<Composition>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Composition> &kept = (*known)[textOf(composition)];
  if (kept)
    return *kept;
  kept = std::make_unique<Composition>(std::move(composition));
  std::map<std::string, int> times;
  for (std::size_t i = 0; i < kept->parts.size(); ++i) {
    CompositionPart &part = kept->parts[i];
    kept->name += (i ? "_" : "") + std::string(part.kernel.name);
    const int before = times[part.kernel.name]++;
    part.prefix = i == kept->leader ? "" : part.kernel.name + (before ? std::to_string(before + 1) : std::string()) + ".";
  }
  for (CompositionValue &value : kept->values)
    if (value.param >= 0)
      kept->params.push_back(value.desc);
  kept->desc = {kept->name.c_str(), nullptr, kept->params, where, kept.get(), kept.get()};
  return *kept;
}

std::variant<ComposedModule, CompositionRefusal> composeModule(MLIRContext &context, const Composition &composition,
                                                               std::span<const KernelArg> args, Config &config) {
  return Composer(context, composition, args, config).run();
}

OwningOpRef<ModuleOp> traceComposition(MLIRContext &context, const KernelDesc &kernel, std::span<const KernelArg> args,
                                       Config &config) {
  auto composed = composeModule(context, *kernel.parts, args, config);
  if (auto *no = std::get_if<CompositionRefusal>(&composed))
    throw UserError({no->at, kernel.name, "Config", fmt::format("with {} the kernel's parts are not one kernel: {}", config.str(), no->why),
                     "fuse_numbers", "leave its numbers to the compiler, or build the graph with fuse::none"});
  return std::move(std::get<ComposedModule>(composed).module);
}

} // namespace sectile::detail
