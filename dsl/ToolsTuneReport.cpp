// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsTuneReport.h"

#include "dsl/ToolsCommon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <vector>

namespace sectile::tools {
namespace {

using State = TunedCandidate::State;

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text)
    switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '"': out += "&quot;"; break;
    default: out += c;
    }
  return out;
}

/// Three digits that count.
std::string shortNumber(double v) {
  if (v >= 1e6 || (v > 0 && v < 1e-2))
    return fmt::format("{:.1e}", v);
  return v >= 100 ? fmt::format("{:.0f}", v) : v >= 10 ? fmt::format("{:.1f}", v) : fmt::format("{:.2f}", v);
}

std::string configName(const std::string &text) { return text.empty() ? "(the only one)" : text; }

/// A place on an axis, in pixels; logarithmic or not.
struct Scale {
  double low, high, from, to;
  bool isLog;
  double at(double v) const {
    const double t = isLog ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
    return from + t * (to - from);
  }
  /// 1, 2 and 5 times powers of ten that lie inside; fewer where they would touch.
  std::vector<double> ticks() const {
    std::vector<double> all;
    if (isLog) {
      const bool wide = high / low > 2e3;
      for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
        for (double m : {1.0, 2.0, 5.0})
          if ((m == 1 || !wide) && power * m >= low * 0.999 && power * m <= high * 1.001)
            all.push_back(power * m);
      return all;
    }
    double step = std::pow(10, std::floor(std::log10((high - low) / 4)));
    while ((high - low) / step > 6)
      step *= step * 2 > (high - low) / 6 ? 2 : 2.5;
    for (double v = std::ceil(low / step) * step; v <= high * 1.0001; v += step)
      all.push_back(v);
    return all;
  }
};

/// A drawing: a frame with two axes, and what is put into it.
class Drawing {
public:
  Drawing(int width, int height, Scale x, Scale y, std::string label) : width(width), height(height), x(x), y(y) {
    out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", width, height, escaped(label));
  }
  void axes(const std::string &xName, const std::string &yName, bool xTicks = true) {
    for (double v : y.ticks()) {
      out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", x.from, x.to, y.at(v), y.at(v));
      text(x.from - 8, y.at(v) + 4, fmt::format("{:g}", v), "tick end");
    }
    if (xTicks)
      for (double v : x.ticks()) {
        out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", x.at(v), x.at(v), y.from, y.to);
        text(x.at(v), y.from + 18, fmt::format("{:g}", v), "tick middle");
      }
    text((x.from + x.to) / 2, y.from + (xTicks ? 38 : 22), xName, "axis middle");
    out += fmt::format("<text class=\"axis middle\" transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}</text>\n", x.from - 50, (y.from + y.to) / 2, escaped(yName));
  }
  void line(double x1, double y1, double x2, double y2, const char *style) {
    out += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1, y1, x2, y2);
  }
  /// A mark with a sentence that shows when it is pointed at.
  void dot(double px, double py, double radius, const char *style, const std::string &title) {
    out += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n", style, px, py, radius, escaped(title));
  }
  void text(double px, double py, const std::string &what, const char *style) {
    out += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", style, px, py, escaped(what));
  }
  std::string done() { return out + "</svg>\n"; }
  const int width, height;
  const Scale x, y;

private:
  std::string out;
};

bool isMeasured(const TunedCandidate &c) { return c.state == State::measured && c.micros > 0; }

/// The first characters, if there are more.
std::string cut(const std::string &text, std::size_t most) { return text.size() > most ? text.substr(0, most - 1) + "…" : text; }

std::string nameOf(const ReportJob &job) { return job.kernel + " " + job.shape; }

/// Labels that do not lie on each other: from above to below, each moved down as far as it needs.
struct Label {
  double x, y;
  std::string text;
};
void place(std::vector<Label> &labels, double least) {
  std::stable_sort(labels.begin(), labels.end(), [](const Label &a, const Label &b) { return a.y < b.y; });
  for (std::size_t i = 0; i < labels.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (std::abs(labels[i].x - labels[j].x) < 250 && labels[i].y - labels[j].y < least)
        labels[i].y = labels[j].y + least;
}

/// Jobs of one GPU that have products, over the roofline of the fastest of their types.
std::string roofline(const std::vector<const ReportJob *> &jobs) {
  double peak = 0, memory = 0, least = 1e30, fastest = 0, lowX = 1e30, highX = 0;
  for (const ReportJob *job : jobs) {
    const TuneResult &r = job->result;
    peak = std::max(peak, r.peakTflops);
    memory = std::max(memory, r.memoryGBs);
    lowX = std::min(lowX, r.flops / r.bytes), highX = std::max(highX, r.flops / r.bytes);
    for (const TunedCandidate &c : r.candidates)
      if (isMeasured(c)) {
        least = std::min(least, r.flops / c.micros * 1e-6);
        fastest = std::max(fastest, r.flops / c.micros * 1e-6);
      }
    least = std::min(least, r.flops / r.micros * 1e-6), fastest = std::max(fastest, r.flops / r.micros * 1e-6);
  }
  const double ridge = peak > 0 && memory > 0 ? peak * 1e3 / memory : 0;
  if (ridge > 0)
    lowX = std::min(lowX, ridge / 3), highX = std::max(highX, ridge * 3);
  Drawing d(860, 430, {lowX / 1.4, highX * 1.6, 70, 840, true}, {least / 1.5, std::max(fastest, peak) * 1.35, 375, 15, true}, "Candidates over the roofline");
  d.axes("flop per byte of the arguments", "TFLOP/s");
  if (ridge > 0) {
    const double from = std::max(d.x.low, d.y.low * 1e3 / memory);
    d.line(d.x.at(from), d.y.at(from * memory * 1e-3), d.x.at(ridge), d.y.at(peak), "roof");
    d.line(d.x.at(ridge), d.y.at(peak), d.x.to, d.y.at(peak), "roof");
    d.text(d.x.to - 4, d.y.at(peak) - 7, fmt::format("{} TFLOP/s, dense peak", shortNumber(peak)), "note end");
    const double middle = std::sqrt(from * ridge);
    if (d.x.at(ridge) - d.x.at(from) > 120)
      d.text(d.x.at(middle) + 10, d.y.at(middle * memory * 1e-3) + 16, fmt::format("{} GB/s of memory", shortNumber(memory)), "note");
  }
  std::vector<Label> labels;
  for (const ReportJob *job : jobs) {
    const TuneResult &r = job->result;
    const double px = d.x.at(r.flops / r.bytes);
    auto rate = [&](double micros) { return r.flops / micros * 1e-6; };
    for (const TunedCandidate &c : r.candidates)
      if (isMeasured(c) && c.text != r.text)
        d.dot(px, d.y.at(rate(c.micros)), 3, "other", fmt::format("{}: {}, {} us, {} TFLOP/s", nameOf(*job), configName(c.text), shortNumber(c.micros), shortNumber(rate(c.micros))));
    d.dot(px, d.y.at(rate(r.micros)), 5.5, "winner", fmt::format("{}: {}, {} us, {} TFLOP/s", nameOf(*job), configName(r.text), shortNumber(r.micros), shortNumber(rate(r.micros))));
    labels.push_back({px, d.y.at(rate(r.micros)), cut(job->shape, 32)});
  }
  place(labels, 13);
  for (const Label &l : labels) // on the side where there is room
    d.text(l.x > 590 ? l.x - 10 : l.x + 10, l.y + 4, l.text, l.x > 590 ? "note end" : "note");
  return d.done();
}

/// Jobs of one GPU without products, beside the bandwidth of the memory.
std::string bandwidth(const std::vector<const ReportJob *> &jobs) {
  double memory = 0, most = 0;
  for (const ReportJob *job : jobs) {
    memory = std::max(memory, job->result.memoryGBs);
    most = std::max(most, job->result.bytes / job->result.micros * 1e-3);
  }
  Drawing d(860, 60 + 34 * static_cast<int>(jobs.size()), {0, std::max(memory, most) * 1.08, 250, 840, false},
            {0, static_cast<double>(jobs.size()), 15.0 + 34.0 * static_cast<double>(jobs.size()), 15, false}, "Candidates beside the memory's bandwidth");
  for (double v : d.x.ticks()) {
    d.line(d.x.at(v), d.y.from, d.x.at(v), d.y.to, "grid");
    d.text(d.x.at(v), d.y.from + 18, fmt::format("{:g}", v), "tick middle");
  }
  d.text((d.x.from + d.x.to) / 2, d.y.from + 38, "GB/s, every argument once", "axis middle");
  if (memory > 0)
    d.line(d.x.at(memory), d.y.from, d.x.at(memory), d.y.to, "roof");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const TuneResult &r = jobs[i]->result;
    const double py = 32.0 + 34.0 * static_cast<double>(i);
    auto rate = [&](double micros) { return r.bytes / micros * 1e-3; };
    d.line(d.x.from, py, d.x.to, py, "grid");
    d.text(d.x.from - 10, py + 4, cut(nameOf(*jobs[i]), 32), "note end");
    for (const TunedCandidate &c : r.candidates)
      if (isMeasured(c) && c.text != r.text)
        d.dot(d.x.at(rate(c.micros)), py, 3, "other", fmt::format("{}, {} us, {} GB/s", configName(c.text), shortNumber(c.micros), shortNumber(rate(c.micros))));
    d.dot(d.x.at(rate(r.micros)), py, 5.5, "winner", fmt::format("{}, {} us, {} GB/s", configName(r.text), shortNumber(r.micros), shortNumber(rate(r.micros))));
  }
  return d.done();
}

/// Every measured candidate of a job by its time.
std::string candidatesDrawing(const ReportJob &job) {
  const TuneResult &r = job.result;
  std::vector<const TunedCandidate *> list;
  for (const TunedCandidate &c : r.candidates)
    if (isMeasured(c))
      list.push_back(&c);
  if (list.empty())
    return {};
  double low = r.boundMicros > 0 ? r.boundMicros : list.front()->lowMicros, high = 0;
  for (const TunedCandidate *c : list) {
    low = std::min(low, c->lowMicros);
    high = std::max(high, c->highMicros);
  }
  const bool isLog = high > 4 * low;
  Scale y{isLog ? low / 1.15 : std::max(0.0, low - (high - low) * 0.12), isLog ? high * 1.15 : high + (high - low) * 0.08, 235, 12, isLog};
  if (!(y.high > y.low))
    y.high = y.low * 1.1 + 1e-9;
  Drawing d(860, 268, {0, static_cast<double>(list.size()) + 1, 70, 840, false}, y, "Candidates of " + nameOf(job));
  d.axes(fmt::format("{} candidates, the quickest first", list.size()), "us", false);
  if (r.boundMicros > 0) {
    d.line(d.x.from, d.y.at(r.boundMicros), d.x.to, d.y.at(r.boundMicros), "roof");
    d.text(d.x.to - 4, d.y.at(r.boundMicros) - 6, fmt::format("bound {} us", shortNumber(r.boundMicros)), "note end");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TunedCandidate &c = *list[i];
    const double px = d.x.at(static_cast<double>(i) + 1);
    if (c.predictedMicros >= y.low && c.predictedMicros <= y.high)
      d.dot(px, d.y.at(c.predictedMicros), 3, "model", fmt::format("{}: the model says {} us", configName(c.text), shortNumber(c.predictedMicros)));
    d.line(px, d.y.at(c.lowMicros), px, d.y.at(c.highMicros), "interval");
    const bool isChosen = c.text == r.text;
    d.dot(px, d.y.at(c.micros), isChosen ? 5.5 : 4, isChosen ? "winner" : c.isDefault ? "default" : "other",
          fmt::format("{}{}{}: {} us ({} to {})", configName(c.text), isChosen ? ", chosen" : "", c.isDefault ? ", default" : "", shortNumber(c.micros), shortNumber(c.lowMicros),
                      shortNumber(c.highMicros)));
  }
  return d.done();
}

std::string candidatesTable(const ReportJob &job) {
  const TuneResult &r = job.result;
  std::string rows;
  std::map<std::string, std::size_t> reasons;
  for (const TunedCandidate &c : r.candidates)
    if (isMeasured(c))
      rows += fmt::format("<tr><td><code>{}</code>{}{}</td><td class=\"n\">{}</td><td class=\"n\">{} to {}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n", escaped(configName(c.text)),
                          c.text == r.text ? " <b>chosen</b>" : "", c.isDefault ? " <i>default</i>" : "", shortNumber(c.micros), shortNumber(c.lowMicros), shortNumber(c.highMicros),
                          c.samples ? std::to_string(c.samples) : "record", c.predictedMicros > 0 ? shortNumber(c.predictedMicros) : "–");
    else
      ++reasons[fmt::format("{}{}{}", name(c.state), c.reason.empty() ? "" : ": ", c.reason)];
  if (rows.empty() && reasons.empty())
    return {};
  std::string out = "<details><summary>all candidates</summary>\n";
  if (!rows.empty())
    out += "<table><tr><th>configuration</th><th class=\"n\">us</th><th class=\"n\">interval</th><th class=\"n\">samples</th><th class=\"n\">model us</th></tr>\n" + rows + "</table>\n";
  std::vector<std::pair<std::size_t, std::string>> most;
  for (const auto &[reason, count] : reasons)
    most.emplace_back(count, reason);
  std::stable_sort(most.begin(), most.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  constexpr std::size_t shown = 20;
  if (!most.empty())
    out += "<ul>\n";
  for (std::size_t i = 0; i < most.size() && i < shown; ++i)
    out += fmt::format("<li>{} × {}</li>\n", most[i].first, escaped(most[i].second));
  if (most.size() > shown)
    out += fmt::format("<li>{} other reasons</li>\n", most.size() - shown);
  if (!most.empty())
    out += "</ul>\n";
  return out + "</details>\n";
}

std::string summaryRow(const ReportJob &job, std::size_t number) {
  const TuneResult &r = job.result;
  const std::string link = fmt::format("<a href=\"#job{}\">{}</a>", number, escaped(nameOf(job)));
  if (!job.error.empty())
    return fmt::format("<tr><td>{}</td><td colspan=\"7\" class=\"bad\">{}</td></tr>\n", link, escaped(job.error));
  const double share = r.boundMicros > 0 ? r.boundMicros / r.micros : 0;
  const std::string bar = share > 0 ? fmt::format("<span class=\"bar\"><span style=\"width:{:.1f}%\"></span></span> {:.0f} %", 100 * std::min(share, 1.0), 100 * share) : "–";
  return fmt::format("<tr><td>{}</td><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"share\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n", link,
                     escaped(configName(r.text)), shortNumber(r.micros), r.flops > 0 ? shortNumber(r.flops / r.micros * 1e-6) + " TFLOP/s" : r.bytes > 0 ? shortNumber(r.bytes / r.micros * 1e-3) + " GB/s" : "–",
                     r.defaultMicros > 0 ? fmt::format("{:.2f}×", r.defaultMicros / r.micros) : "–", bar,
                     r.fromRecord ? "record" : fmt::format("{} of {}", r.tried, r.candidates.size()), r.noisy ? "<b>noisy</b>" : "final");
}

constexpr const char *style = R"(
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5d6878; --line: #dfe4ea; --page: #ffffff; --panel: #f6f8fa; --accent: #d1480f; --dot: #4a7ab8; --roof: #1c2330; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #333c49; --page: #14181e; --panel: #1b2129; --accent: #ff8a50; --dot: #7fb0ee; --roof: #e4e8ee; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 1060px; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { font-size: 1rem; margin-bottom: .2rem; }
p.note, figcaption { color: var(--soft); margin: .2rem 0 .8rem; }
figure { margin: 1rem 0; padding: .8rem .8rem .4rem; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
figcaption { margin: .3rem 0 .2rem; font-size: .85rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 12px; } svg .axis { fill: var(--ink); } svg .note { paint-order: stroke; stroke: var(--panel); stroke-width: 4px; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
.grid { stroke: var(--line); stroke-width: 1; } .roof { stroke: var(--roof); stroke-width: 1.5; stroke-dasharray: 6 4; } .interval { stroke: var(--dot); stroke-width: 1.5; opacity: .6; }
.other { fill: var(--dot); opacity: .55; } .winner { fill: var(--accent); } .default { fill: var(--page); stroke: var(--dot); stroke-width: 2; } .model { fill: none; stroke: var(--soft); stroke-width: 1; opacity: .7; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; } th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: middle; } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: .86em ui-monospace, monospace; } a { color: inherit; } .bad { color: var(--bad); } .share { white-space: nowrap; }
.bar { display: inline-block; width: 90px; height: 8px; border-radius: 4px; background: var(--line); vertical-align: middle; overflow: hidden; } .bar span { display: block; height: 100%; background: var(--accent); }
details { margin: .2rem 0 1rem; } summary { cursor: pointer; color: var(--soft); } ul { color: var(--soft); font-size: .88rem; }
)";

} // namespace

std::string tuneReport(std::span<const ReportJob> jobs) {
  std::string out = fmt::format("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                                "<title>Tuning report</title>\n<style>{}</style>\n</head>\n<body>\n<h1>Tuning report</h1>\n<p class=\"note\">Sectile {}, {}</p>\n",
                                style, SECTILE_VERSION, timeText(std::time(nullptr)));
  std::vector<std::string> devices;
  for (const ReportJob &job : jobs)
    if (std::find(devices.begin(), devices.end(), job.result.device) == devices.end())
      devices.push_back(job.result.device);
  for (const std::string &device : devices) {
    std::vector<const ReportJob *> products, others;
    std::string rows;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const ReportJob &job = jobs[i];
      if (job.result.device != device)
        continue;
      rows += summaryRow(job, i);
      if (job.error.empty() && job.result.micros > 0 && job.result.bytes > 0)
        (job.result.flops > 0 ? products : others).push_back(&job);
    }
    out += fmt::format("<h2>{}</h2>\n<div class=\"wide\"><table><tr><th>kernel and arguments</th><th>chosen</th><th class=\"n\">us</th><th class=\"n\">rate</th><th class=\"n\">over default</th>"
                       "<th>of the bound</th><th class=\"n\">timed</th><th></th></tr>\n{}</table></div>\n",
                       device.empty() ? "Not tuned" : escaped(device), rows);
    if (!products.empty())
      out += "<figure>" + roofline(products) + "<figcaption>Every candidate that was timed, by what its arguments ask of the memory; the chosen one of each shape in colour.</figcaption></figure>\n";
    if (!others.empty())
      out += "<figure>" + bandwidth(others) + "<figcaption>Kernels without products: candidates beside the bandwidth of the memory (dashed).</figcaption></figure>\n";
  }
  out += "<h2>Shapes</h2>\n";
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const ReportJob &job = jobs[i];
    const TuneResult &r = job.result;
    out += fmt::format("<h3 id=\"job{}\">{}</h3>\n", i, escaped(nameOf(job)));
    if (!job.error.empty()) {
      out += fmt::format("<p class=\"bad\">{}</p>\n", escaped(job.error));
      continue;
    }
    std::string note = fmt::format("<code>{}</code> takes {} us ({} to {})", escaped(configName(r.text)), shortNumber(r.micros), shortNumber(r.lowMicros), shortNumber(r.highMicros));
    if (r.boundMicros > 0)
      note += fmt::format("; no schedule can take less than {} us", shortNumber(r.boundMicros));
    if (!r.fromRecord)
      note += fmt::format("; {:.1f} s, ended by: {}", r.seconds, escaped(r.endedBy));
    out += "<p class=\"note\">" + note + "</p>\n";
    if (std::string drawing = candidatesDrawing(job); !drawing.empty())
      out += "<figure>" + drawing + "<figcaption>Median and interval of each candidate; filled in colour: chosen; ring: the default; thin ring: what the model predicted.</figcaption></figure>\n";
    out += candidatesTable(job);
  }
  return out + "</body>\n</html>\n";
}

} // namespace sectile::tools
