// A line chart as an SVG file: enough for losses over tokens, readable in light and dark.
//
// Thread rule: pure function.
#ifndef MOORING_EVAL_PLOT_H_
#define MOORING_EVAL_PLOT_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mooring {

struct PlotLine {
  std::string label;
  std::vector<std::pair<double, double>> points;  // x ascending
};

struct PlotText {
  std::string title;
  std::string x_label;
  std::string y_label;
};

// REQUIRES: at least one line with at least one finite point.
std::string LineChartSvg(const PlotText& text, std::span<const PlotLine> lines);

}  // namespace mooring

#endif  // MOORING_EVAL_PLOT_H_
