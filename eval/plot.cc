#include "eval/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace mooring {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 380;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 44;
constexpr double kBottom = 56;
// Told apart by colour and by dash, also by those who see no colours.
constexpr std::array<std::string_view, 4> kColours = {"#0B5FA5", "#A65500", "#00725F", "#6F3BA3"};
constexpr std::array<std::string_view, 4> kDashes = {"none", "7 4", "2 3", "10 3 2 3"};

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void Pad(double share) {
    const double pad = high > low ? (high - low) * share : std::max(1e-3, std::abs(high) * 0.1);
    low -= pad;
    high += pad;
  }
  double At(double value, double from, double to) const {
    return from + (value - low) / std::max(high - low, 1e-300) * (to - from);
  }
};

// A step of 1, 2 or 5 times a power of ten that cuts the range into about five.
double TickStep(const Range& range) {
  const double raw = (range.high - range.low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

std::string Ticks(const Range& x, const Range& y) {
  std::string svg;
  const double x_step = TickStep(x);
  for (double v = std::ceil(x.low / x_step) * x_step; v <= x.high; v += x_step) {
    const double at = x.At(v, kLeft, kWidth - kRight);
    svg += fmt::format(
        "<line class='grid' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>"
        "<text x='{0:.1f}' y='{3}' text-anchor='middle'>{4:g}</text>\n",
        at, kTop, kHeight - kBottom, kHeight - kBottom + 18, v);
  }
  const double y_step = TickStep(y);
  for (double v = std::ceil(y.low / y_step) * y_step; v <= y.high; v += y_step) {
    const double at = y.At(v, kHeight - kBottom, kTop);
    svg += fmt::format(
        "<line class='grid' x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/>"
        "<text x='{3}' y='{4:.1f}' text-anchor='end'>{5:g}</text>\n",
        kLeft, kWidth - kRight, at, kLeft - 8, at + 4, v);
  }
  return svg;
}

}  // namespace

std::string LineChartSvg(const PlotText& text, std::span<const PlotLine> lines) {
  Range x;
  Range y;
  for (const PlotLine& line : lines) {
    for (const auto& [px, py] : line.points) {
      if (!std::isfinite(px) || !std::isfinite(py)) continue;
      x.Include(px);
      y.Include(py);
    }
  }
  CHECK(x.low <= x.high, "a chart without points");
  x.Pad(0.01);
  y.Pad(0.08);
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12' role='img' aria-label='{2}'>\n"
      "<style>text{{fill:#222}}.grid{{stroke:#8884;stroke-width:1}}"
      "@media(prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n"
      "<text x='{3}' y='20' font-size='15'>{2}</text>\n",
      kWidth, kHeight, Escape(text.title), kLeft);
  svg += Ticks(x, y);
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 14, Escape(text.x_label));
  svg +=
      fmt::format("<text transform='translate(18 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                  (kTop + kHeight - kBottom) / 2, Escape(text.y_label));
  double legend_x = kLeft;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    const std::string_view dash = kDashes[i % kDashes.size()];
    std::string path;
    for (const auto& [px, py] : lines[i].points) {
      if (!std::isfinite(px) || !std::isfinite(py)) continue;
      path += fmt::format("{:.1f},{:.1f} ", x.At(px, kLeft, kWidth - kRight),
                          y.At(py, kHeight - kBottom, kTop));
    }
    svg += fmt::format(
        "<polyline fill='none' stroke='{0}' stroke-width='2' stroke-dasharray='{1}' "
        "points='{2}'/>\n"
        "<line x1='{3}' x2='{4}' y1='34' y2='34' stroke='{0}' stroke-width='2' "
        "stroke-dasharray='{1}'/><text x='{5}' y='38'>{6}</text>\n",
        colour, dash, path, legend_x, legend_x + 24, legend_x + 30, Escape(lines[i].label));
    legend_x += 50 + 7.0 * static_cast<double>(lines[i].label.size());
  }
  return svg + "</svg>\n";
}

}  // namespace mooring
