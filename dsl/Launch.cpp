// SPDX-License-Identifier: Apache-2.0
// Finds the variant of a kernel that fits the actual arguments, compiling it on first use, and runs it.
#include "autotune/Tune.h"
#include "dsl/Choice.h"
#include "dsl/Compile.h"
#include "dsl/ModelChoice.h"
#include "dsl/Repack.h"
#include "dsl/Trace.h"
#include "ir/base/TargetList.h"
#include "ir/Interp.h"
#include "runtime/Env.h"
#include "runtime/Launch.h"
#include "runtime/Log.h"
#include "runtime/Split.h"

#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Targets.h>

#include "llvm/ADT/SmallVector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace sectile {
namespace {

/// The key of a variant: device, configuration, constants, tiles of covered axes, specialisation of every tensor.
/// Words, so that building and comparing one costs tens of nanoseconds.
class VariantKey {
public:
  void add(std::uint64_t word) {
    if (count < inlineWords)
      words[count] = word;
    else
      more.push_back(word);
    ++count;
    hashValue = (hashValue ^ word) * 0x9E3779B97F4A7C15ull;
    hashValue ^= hashValue >> 29;
  }
  void add(std::string_view text) {
    add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
      add(word);
    }
  }
  bool operator==(const VariantKey &other) const {
    return count == other.count && hashValue == other.hashValue &&
           std::equal(words.begin(), words.begin() + std::min(count, inlineWords), other.words.begin()) &&
           more == other.more;
  }
  size_t hash() const { return hashValue; }

private:
  static constexpr size_t inlineWords = 40;
  std::array<std::uint64_t, inlineWords> words{};
  std::vector<std::uint64_t> more;
  size_t count = 0;
  std::uint64_t hashValue = 0x5EC71E;
};
struct HashKey {
  size_t operator()(const VariantKey &key) const { return key.hash(); }
};

/// An axis that `cfg.cover` looked at: the tile that covers it belongs to the key.
struct Cover {
  std::string name;
  int arg, axis;
  bool operator==(const Cover &) const = default;
};

/// What the process knows of one kernel.
struct KernelState {
  std::mutex mutex;
  std::shared_ptr<const std::vector<Cover>> covers; ///< grows as traces meet new ones
  std::unordered_map<VariantKey, std::shared_ptr<const CompiledKernel>, HashKey> variants;
  std::shared_ptr<const CompiledKernel> newest;     ///< compiled last, to tell in the log what changed
  std::atomic<std::uint64_t> record{~0ull}; ///< recordGeneration() when it was last asked for this kernel
  std::uint64_t recordVersion = ~0ull;      ///< of that time
  bool isTuned = false;                     ///< the tuning record has choices for this kernel: they depend on the lengths
  bool isOpen = false;                      ///< the kernel has picks to choose from: on a GPU the choice depends on the lengths
  std::atomic<std::uint64_t> generation{0}; ///< changes with `covers` and when variants are dropped

  /// The most variants of one kernel kept at hand; dropped ones come back from the kernel cache.
  static constexpr size_t maxVariants = 512;
};

KernelState &stateOf(const void *id) {
  static std::mutex mutex;
  static auto *states = new std::unordered_map<const void *, std::unique_ptr<KernelState>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<KernelState> &state = (*states)[id];
  if (!state)
    state = std::make_unique<KernelState>();
  return *state;
}

VariantKey makeKey(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args,
                   const Config *overrides, bool apart, const std::vector<Cover> &covers, bool byLengths) {
  VariantKey key;
  key.add(std::uint64_t(apart));
  bool isGpu = !device.isInterpreter();
  key.add(isGpu ? static_cast<std::uint64_t>(device.properties().computeMajor * 16 + device.properties().computeMinor) : ~0ull);
  if (overrides) {
    key.add(static_cast<std::uint64_t>(overrides->warps) << 32 | static_cast<std::uint32_t>(overrides->stages));
    key.add(static_cast<std::uint64_t>(overrides->cluster) << 32 | static_cast<std::uint32_t>(overrides->raster));
    key.add(static_cast<std::uint64_t>(overrides->split) << 32 | static_cast<std::uint32_t>(overrides->blocks));
    key.add(static_cast<std::uint64_t>(overrides->pingpong) << 32 | static_cast<std::uint32_t>(overrides->multicast));
    key.add(static_cast<std::uint64_t>(overrides->snake) << 32 | static_cast<std::uint32_t>(overrides->streamk));
    key.add(static_cast<std::uint64_t>(overrides->overlap) << 32 | static_cast<std::uint32_t>(overrides->async));
    key.add(static_cast<std::uint64_t>(overrides->persistent) << 32 | static_cast<std::uint32_t>(overrides->prefetch));
    key.add(static_cast<std::uint64_t>(overrides->evict) << 32 | static_cast<std::uint32_t>(overrides->keep));
    for (const auto &[name, value] : overrides->values()) {
      key.add(name);
      key.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(value.value)));
    }
  }
  llvm::SmallVector<CoveredAxis, 8> covered;
  for (const Cover &cover : covers) {
    const KernelArg &arg = args[static_cast<size_t>(cover.arg)];
    const std::int64_t dim = arg.dims[static_cast<size_t>(cover.axis)];
    const std::optional<int> byHand = overrides ? overrides->get(cover.name) : std::nullopt;
    const std::int64_t tile = byHand ? *byHand : detail::coverBucket(coverLength(arg, cover.axis));
    // A tile set by hand covers what fits into it: longer rows are no launch of this variant.
    key.add(static_cast<std::uint64_t>(tile) << 1 | (dim <= tile));
    if (dim <= tile)
      covered.push_back({cover.arg, cover.axis, tile});
  }
  llvm::SmallVector<ArgSpec, 8> specs(isGpu ? args.size() : 0);
  for (size_t i = 0; i < specs.size(); ++i)
    if (args[i].isTensor())
      specs[i] = specialise(args[i]);
  if (byLengths && !overrides) {
    key.add(static_cast<std::uint64_t>(device.ordinal())); // two GPUs of one architecture need not be of one kind
    for (const KernelArg &arg : args) {
      if (!isGpu && arg.isTensor())
        key.add(packed(specialise(arg)));
      for (int d = 0; d < arg.rank; ++d)
        key.add(static_cast<std::uint64_t>(autotune::shapeBucket(arg.dims[static_cast<size_t>(d)])));
    }
  }
  if (isGpu)
    boundDims(specs, args, covered);
  for (size_t i = 0; i < args.size(); ++i) {
    if (kernel.params[i].kind == detail::ParamDesc::Kind::constant) {
      key.add(args[i].scalar);
    } else if (isGpu && args[i].isTensor()) {
      key.add(packed(specs[i]));
      for (int d = 0; d < args[i].rank; ++d)
        if (specs[i].dimMax[static_cast<size_t>(d)])
          key.add(static_cast<std::uint64_t>(specs[i].dimMax[static_cast<size_t>(d)]) << 3 | static_cast<std::uint64_t>(d));
    }
  }
  return key;
}

/// The last variant this thread used of the kernel it used last: the common case of a loop around one launch.
struct LastUse {
  const void *id = nullptr;
  KernelState *state = nullptr;
  std::uint64_t generation = 0;
  bool isTuned = false, isOpen = false;
  std::shared_ptr<const std::vector<Cover>> covers;
  VariantKey key;
  std::shared_ptr<const CompiledKernel> compiled;
  // What the key was made of, if no configuration was given: a launch with the same needs no key.
  std::optional<Device> device;
  llvm::SmallVector<KernelArg, 8> args;

  /// `special`: by a configuration, or for arguments that share memory.
  void remember(const VariantKey &newKey, const Device &newDevice, std::span<const KernelArg> newArgs, bool special) {
    key = newKey;
    device.reset();
    if (special)
      return;
    device = newDevice;
    args.assign(newArgs.begin(), newArgs.end());
  }
  /// What a kernel of this state takes on this device depends on the lengths.
  bool isByLengths(const Device &nowDevice) const { return isTuned || (isOpen && !nowDevice.isInterpreter()); }
  /// The same device, constants, dims, strides, and pointers as much as a key holds of them.
  bool isSame(const detail::KernelDesc &kernel, const Device &nowDevice, std::span<const KernelArg> now) const {
    if (!device || !(*device == nowDevice))
      return false;
    for (size_t i = 0; i < now.size(); ++i) {
      const KernelArg &a = args[i], &b = now[i];
      if (kernel.params[i].kind == detail::ParamDesc::Kind::constant && a.scalar != b.scalar)
        return false;
      if ((reinterpret_cast<std::uintptr_t>(a.data) ^ reinterpret_cast<std::uintptr_t>(b.data)) & 15)
        return false;
      for (int d = 0; d < b.rank; ++d)
        if (a.dims[static_cast<size_t>(d)] != b.dims[static_cast<size_t>(d)] ||
            a.strides[static_cast<size_t>(d)] != b.strides[static_cast<size_t>(d)])
          return false;
    }
    return true;
  }
};

/// Notices that the tuning record has changed for this kernel: every variant is looked up again. @pre state.mutex is held
void noticeRecord(const detail::KernelDesc &kernel, KernelState &state) {
  const std::uint64_t generation = recordGeneration(), version = recordVersion(kernel);
  if (version != state.recordVersion) {
    state.recordVersion = version;
    state.isTuned = recordKnows(kernel);
    state.variants.clear();
    state.generation.fetch_add(1, std::memory_order_release);
  }
  state.record.store(generation, std::memory_order_release);
}

/// With the cost model's choice of the picks; null where it has none, or where its code spills or is refused.
std::shared_ptr<const CompiledKernel> compileByModel(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args,
                                                     bool apart, const CompiledKernel *previous) {
  const Target *target = device.isInterpreter() ? nullptr : findTarget(device.arch());
  if (!target)
    return nullptr;
  const ModelChoice choice = modelChoice(kernel, args, *target, device.properties().multiprocessors);
  if (!choice.config)
    return nullptr;
  try {
    auto compiled = compile(kernel, args, &*choice.config, device.arch(), apart, previous);
    const int spills = compiled->module->artifact().spillBytes;
    runtime::logLine(fmt::format("{}: cfg({}) by the cost model: {}{}", kernel.name, compiled->config.str(), choice.why,
                                 spills > 0 ? fmt::format("; not used, {} B spill", spills) : std::string()));
    return spills > 0 ? nullptr : compiled;
  } catch (const UserError &e) {
    runtime::logLine(fmt::format("{}: cfg({}) of the cost model is not used: {}", kernel.name, choice.config->str(), e.what()));
    return nullptr;
  }
}

/// Compiles a variant: with the numbers set by hand, else with those of the tuning record, else with the cost model's, else with
/// the first of every pick.
std::shared_ptr<const CompiledKernel> compileChosen(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args,
                                                    const Config *overrides, bool apart, bool isTuned, const CompiledKernel *previous) {
  if (overrides)
    return compile(kernel, args, overrides, device.arch(), apart, previous);
  RecordedChoice choice = isTuned ? recordedChoice(kernel, args, device) : RecordedChoice();
  if (choice.config) {
    try {
      auto compiled = compile(kernel, args, &*choice.config, device.arch(), apart, previous);
      runtime::logLine(fmt::format("{}: cfg({}) from the tuning {}", kernel.name, compiled->config.str(), choice.origin));
      return compiled;
    } catch (const std::exception &e) {
      // That of a neighbour may not fit these arguments. Whatever it is, the launch does not depend on the record.
      runtime::logLine(fmt::format("{}: cfg({}) of the tuning {} is not used: {}", kernel.name, choice.config->str(), choice.origin, e.what()));
    }
  }
  if (auto compiled = compileByModel(kernel, device, args, apart, previous))
    return compiled;
  return compile(kernel, args, nullptr, device.arch(), apart, previous);
}

/// Adds the covers that a finished trace met; true if there were new ones.
bool learnCovers(KernelState &state, const Config &config) {
  std::vector<Cover> known = state.covers ? *state.covers : std::vector<Cover>();
  size_t before = known.size();
  for (const auto &[name, value] : config.values())
    if (value.coverArg >= 0)
      if (Cover cover{name, value.coverArg, value.coverAxis}; std::find(known.begin(), known.end(), cover) == known.end())
        known.push_back(cover);
  if (known.size() == before && state.covers)
    return false;
  state.covers = std::make_shared<const std::vector<Cover>>(std::move(known));
  return state.covers->size() != before;
}

std::shared_ptr<const CompiledKernel> findVariant(const detail::KernelDesc &kernel, const Device &device,
                                                  std::span<const KernelArg> args, const Config *overrides,
                                                  bool apart = true, bool shared = false) {
  // Launches that look at a variant without shared programs first find both here.
  static thread_local std::array<LastUse, 2> lasts;
  LastUse &last = lasts[shared];
  if (last.id != kernel.id) {
    last = LastUse();
    last.id = kernel.id;
    last.state = &stateOf(kernel.id);
  }
  KernelState &state = *last.state;
  VariantKey key;
  std::shared_ptr<const CompiledKernel> previous;
  for (bool current = false; !current;) {
    if (state.record.load(std::memory_order_acquire) != recordGeneration()) {
      std::lock_guard<std::mutex> lock(state.mutex);
      noticeRecord(kernel, state);
    }
    std::uint64_t generation = state.generation.load(std::memory_order_acquire);
    if (!last.covers || generation != last.generation) {
      std::lock_guard<std::mutex> lock(state.mutex);
      if (!state.covers)
        state.covers = std::make_shared<const std::vector<Cover>>();
      last.covers = state.covers;
      last.isTuned = state.isTuned;
      last.isOpen = state.isOpen;
      last.generation = state.generation.load(std::memory_order_relaxed);
      last.compiled.reset();
    }
    if (last.compiled && !overrides && apart && last.isSame(kernel, device, args))
      return last.compiled;
    key = makeKey(kernel, device, args, overrides, apart, *last.covers, last.isByLengths(device));
    if (last.compiled && key == last.key) {
      last.remember(key, device, args, overrides || !apart);
      return last.compiled;
    }
    std::lock_guard<std::mutex> lock(state.mutex);
    // A key made with fewer covers than are known by now may name another variant: make it again.
    current = state.generation.load(std::memory_order_relaxed) == last.generation;
    if (!current)
      continue;
    if (auto it = state.variants.find(key); it != state.variants.end()) {
      last.remember(key, device, args, overrides || !apart);
      return last.compiled = it->second;
    }
    previous = state.newest;
  }
  // Outside the lock: other variants of this kernel launch meanwhile. Two threads that want the same one meet again in
  // the kernel cache, which builds it once.
  const std::uint64_t recordBefore = recordGeneration();
  const bool wasTuned = last.isTuned;
  auto compiled = compileChosen(kernel, device, args, overrides, apart, last.isTuned, previous.get());
  std::lock_guard<std::mutex> lock(state.mutex);
  state.newest = compiled;
  const bool isOpen = state.isOpen || (!overrides && hasOpenPicks(compiled->config));
  if (learnCovers(state, compiled->config) || isOpen != state.isOpen) {
    state.isOpen = isOpen;
    state.variants.clear(); // keys have more words from now on
    state.generation.fetch_add(1, std::memory_order_release);
  }
  if (state.variants.size() >= KernelState::maxVariants) {
    state.variants.clear();
    state.generation.fetch_add(1, std::memory_order_release);
  }
  last.covers = state.covers;
  last.isTuned = state.isTuned;
  last.isOpen = state.isOpen;
  last.generation = state.generation.load(std::memory_order_relaxed);
  if (recordBefore != recordGeneration() || wasTuned != last.isTuned) {
    // The record changed meanwhile: this launch takes what it has, the next one looks again.
    last.compiled.reset();
    return compiled;
  }
  last.remember(makeKey(kernel, device, args, overrides, apart, *last.covers, last.isByLengths(device)), device, args, overrides || !apart);
  state.variants.emplace(last.key, compiled);
  return last.compiled = compiled;
}

/// The function's arguments on the stack: those of the kernel without its constants.
class FunctionArgs {
public:
  FunctionArgs(const detail::KernelDesc &kernel, std::span<const KernelArg> all) {
    bool hasConstants = false;
    for (const detail::ParamDesc &p : kernel.params)
      hasConstants |= p.kind == detail::ParamDesc::Kind::constant;
    if (!hasConstants) {
      view = all;
      return;
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (kernel.params[i].kind != detail::ParamDesc::Kind::constant)
        kept.push_back(all[i]);
    view = kept;
  }
  std::span<const KernelArg> get() const { return view; }

private:
  std::vector<KernelArg> kept;
  std::span<const KernelArg> view;
};

/// Instead of `plain` the same with programs of the last round shared by all blocks (Stream-K), where that pays.
std::shared_ptr<const CompiledKernel> sharingVariant(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args,
                                                     std::shared_ptr<const CompiledKernel> plain) {
  const FunctionArgs passed(kernel, args);
  for (const GridAxis &axis : plain->launch.grid)
    if (axis.tile < 1 || passed.get()[static_cast<size_t>(axis.arg)].dims[axis.axis] < 1)
      return plain;
  const std::int64_t programs = runtime::gridPrograms(plain->launch, passed.get(), {kernel.name, {}});
  if (!runtime::sharingPays(plain->launch, passed.get(), programs, plain->module->artifact().registers, device.properties()))
    return plain;
  static thread_local std::shared_ptr<const CompiledKernel> last;
  static thread_local Config config;
  if (last != plain) {
    config = parseChoice(choiceText(plain->config)).value_or(Config());
    config.streamk = 2;
    last = plain;
  }
  const bool apart = plain->launch.assumesApart || areApart(args);
  return findVariant(kernel, device, args, &config, apart, /*shared=*/true);
}

/// The variant for these arguments: one that counts on areApart() only where they are.
std::shared_ptr<const CompiledKernel> variantFor(const detail::KernelDesc &kernel, const Device &device,
                                                 std::span<const KernelArg> args, const Config *overrides) {
  auto compiled = findVariant(kernel, device, args, overrides);
  if (compiled->launch.assumesApart && !areApart(args))
    compiled = findVariant(kernel, device, args, overrides, /*apart=*/false);
  if (compiled->launch.split.stream && !compiled->launch.split.possible && (!overrides || !overrides->streamk))
    return sharingVariant(kernel, device, args, compiled);
  return compiled;
}

void refuseInsideTrace(const detail::KernelDesc &kernel, CodePosition where) {
  if (detail::tracing())
    throw UserError({where, kernel.name, "launch", fmt::format("kernel '{}' is launched inside a kernel body", kernel.name),
                     "launch_in_trace", "call it as a C++ function on tiles, or launch it from host code"});
}

void runOnInterpreter(const CompiledKernel &compiled, const detail::KernelDesc &kernel, std::span<const KernelArg> args,
                      std::source_location where) {
  runtime::CallSite site{kernel.name, where};
  runtime::checkArguments(compiled.launch, args, site);
  if (runtime::gridPrograms(compiled.launch, args, site) > 0)
    compiled.program->run(args);
}

/// Copies a tensor whose rows are those of the copy, or run along its second-last axis; the dtype stands for all of its size.
template <class T> void copyRows(const Stream &stream, RepackedArgs::Copy copy, std::source_location where) {
  static constexpr auto copyKernel = kernel("sectile_copy_rows", [](Tensor<const T, 5> X, Tensor<T, 5> Y, Config &cfg) {
    const int R = cfg.pick("R", {16}), C = cfg.pick("C", {256});
    auto [a, b, c, r, k] = grid(Y, {1, 1, 1, R, C});
    Y.store({a, b, c, r, k}, X.load({a, b, c, r, k}, {1, 1, 1, R, C}));
  });
  static constexpr auto turnKernel = kernel("sectile_turn_rows", [](Tensor<const T, 5> X, Tensor<T, 5> Y, Config &cfg) {
    const int R = cfg.pick("R", {64}), C = cfg.pick("C", {64});
    auto [a, b, c, r, k] = grid(Y, {1, 1, 1, R, C});
    Y.store({a, b, c, r, k}, permute(X.load({a, b, c, k, r}, {1, 1, 1, C, R}), {0, 1, 2, 4, 3}));
  });
  copy.from.dtype = copy.to.dtype = dtypeOf<T>;
  const bool turns = copy.from.strides[4] != 1 && copy.from.dims[4] > 1;
  if (turns) {
    std::swap(copy.from.dims[3], copy.from.dims[4]);
    std::swap(copy.from.strides[3], copy.from.strides[4]);
  }
  const std::array<KernelArg, 2> args{copy.from, copy.to};
  detail::launch(turns ? turnKernel.desc() : copyKernel.desc(), stream, args, nullptr, where);
}

/// Launches with copies of arguments that the TMA unit cannot load as they lie; false, and nothing launched, where that
/// does not pay or cannot be.
bool launchRepacked(const detail::KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args,
                    const Config *overrides, const CompiledKernel &compiled, std::source_location where) {
  const int how = compiled.config.repack; // set by hand, or by the tuning record
  FunctionArgs passed(kernel, args);
  if (how == 1 || !RepackedArgs::isWished(compiled.launch.repacks, passed.get()))
    return false;
  const runtime::CallSite site{kernel.name, where};
  runtime::checkArguments(compiled.launch, passed.get(), site);
  const std::int64_t programs = runtime::gridPrograms(compiled.launch, passed.get(), site);
  if (programs == 0)
    return false;
  auto repacked = RepackedArgs::choose(compiled.launch.repacks, passed.get(), programs, how == 2);
  if (!repacked)
    return false;
  bool launched = false;
  bool hasMemory = runtime::withCopyMemory(*compiled.module, passed.get(), stream, repacked->bytes(), where, [&](void *memory) {
    repacked->place(memory);
    std::vector<KernelArg> all(args.begin(), args.end());
    for (size_t i = 0, next = 0; i < all.size(); ++i)
      if (kernel.params[i].kind != detail::ParamDesc::Kind::constant)
        all[i] = repacked->args()[next++];
    auto variant = variantFor(kernel, stream.device(), all, overrides);
    const std::vector<TensorMap> &maps = variant->launch.maps;
    if (!std::all_of(repacked->indices().begin(), repacked->indices().end(), [&](int arg) {
          return std::any_of(maps.begin(), maps.end(), [&](const TensorMap &map) { return map.arg == arg; });
        }))
      return;
    for (const RepackedArgs::Copy &copy : repacked->copies())
      switch (byteSize(copy.from.dtype)) {
      case 1:
        copyRows<std::uint8_t>(stream, copy, where);
        break;
      case 2:
        copyRows<std::uint16_t>(stream, copy, where);
        break;
      case 4:
        copyRows<std::uint32_t>(stream, copy, where);
        break;
      default:
        copyRows<std::uint64_t>(stream, copy, where);
        break;
      }
    runtime::launch(*variant->module, repacked->args(), stream, where);
    launched = true;
  });
  return hasMemory && launched;
}

} // namespace

namespace detail {

/// Of a launch under SECTILE_TUNE=1.
static constexpr double tuneSeconds = 1;

void launchTuned(const KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args, double seconds,
                 std::source_location where) {
  refuseInsideTrace(kernel, where);
  autotune::tuneForLaunch(kernel, stream, args, seconds, where);
  launch(kernel, stream, args, nullptr, where);
}

void launch(const KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args, const Config *overrides,
            std::source_location where) {
  refuseInsideTrace(kernel, where);
  if (!overrides && runtime::env().tune)
    autotune::tuneForLaunch(kernel, stream, args, tuneSeconds, where);
  auto compiled = variantFor(kernel, stream.device(), args, overrides);
  FunctionArgs passed(kernel, args);
  if (compiled->program)
    runOnInterpreter(*compiled, kernel, passed.get(), where);
  else if (compiled->launch.repacks.empty() || !launchRepacked(kernel, stream, args, overrides, *compiled, where))
    runtime::launch(*compiled->module, passed.get(), stream, where);
}

/// Arguments bound to a kernel. What depends on the device is looked up at the first run on it and kept.
class PreparedState {
public:
  PreparedState(const KernelDesc &kernel, std::span<const KernelArg> args, const Config *overrides)
      : kernel(kernel), args(args.begin(), args.end()), passed(kernel, this->args) {
    if (overrides)
      config = *overrides;
  }
  PreparedState(const PreparedState &) = delete;

  void run(const Stream &stream, std::source_location where) {
    const Device &device = stream.device();
    for (const Ready *r = first.load(std::memory_order_acquire); r; r = r->next)
      if (r->device == device)
        return runReady(*r, stream, where);
    runReady(makeReady(device, where), stream, where);
  }
  ~PreparedState() {
    for (const Ready *r = first.load(); r;) {
      const Ready *next = r->next;
      delete r;
      r = next;
    }
  }

private:
  struct Ready {
    Device device;
    std::shared_ptr<const CompiledKernel> compiled;
    std::optional<runtime::PreparedLaunch> launch;
    const Ready *next = nullptr;
  };
  void runReady(const Ready &ready, const Stream &stream, std::source_location where) {
    if (ready.launch && !ready.compiled->launch.repacks.empty() &&
        launchRepacked(kernel, stream, args, config ? &*config : nullptr, *ready.compiled, where))
      return;
    if (ready.launch)
      (*ready.launch)(stream, where);
    else
      runOnInterpreter(*ready.compiled, kernel, passed.get(), where);
  }
  const Ready &makeReady(const Device &device, std::source_location where) {
    std::lock_guard<std::mutex> lock(mutex);
    for (const Ready *r = first.load(std::memory_order_acquire); r; r = r->next)
      if (r->device == device)
        return *r;
    auto *ready = new Ready{device, variantFor(kernel, device, args, config ? &*config : nullptr), {}, first.load()};
    std::unique_ptr<Ready> guard(ready);
    if (ready->compiled->module)
      ready->launch.emplace(ready->compiled->module, passed.get(), where);
    first.store(guard.release(), std::memory_order_release);
    return *ready;
  }

  KernelDesc kernel;
  std::vector<KernelArg> args;
  FunctionArgs passed;
  std::optional<Config> config;
  std::mutex mutex;
  std::atomic<const Ready *> first{nullptr};
};

std::shared_ptr<PreparedState> prepare(const KernelDesc &kernel, std::span<const KernelArg> args, const Config *overrides,
                                       CodePosition where) {
  refuseInsideTrace(kernel, where);
  return std::make_shared<PreparedState>(kernel, args, overrides);
}

void runPrepared(PreparedState &state, const Stream &stream, std::source_location where) { state.run(stream, where); }

std::string emit(const KernelDesc &kernel, std::span<const KernelArg> args, const Config *overrides, std::string_view stage,
                 std::string_view arch, CodePosition where) {
  refuseInsideTrace(kernel, where);
  std::optional<Stage> parsed = parseStage(stage);
  if (!parsed)
    throw UserError({where, kernel.name, "emit", fmt::format("'{}' is no stage", stage), "emit_stage",
                     "name tile, tgpu, llvm, ptx or cubin"});
  if (!findTarget(arch))
    throw UserError({where, kernel.name, "emit", fmt::format("'{}' is no target; targets are {}", arch, targetList()), "emit_arch",
                     "name a row of the targets table, such as sm_90a (`sectile targets` lists them)"});
  return emitStage(kernel, args, overrides, std::string(arch), *parsed);
}

} // namespace detail

std::shared_ptr<const CompiledKernel> variantOfLaunch(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args,
                                                      const Config *overrides) {
  return variantFor(kernel, device, args, overrides);
}

} // namespace sectile
