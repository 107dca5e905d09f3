#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace taxon::report {

/// Where a run stands, in numbers.
struct ProgressState {
  std::int64_t step = 0;
  double epoch = 0, epochs = 0;  // done, and in all
  std::int64_t samples = 0, total_samples = 0;
  double loss = 0;
  double rate = 0;  // learning rate
  double samples_per_second = 0;
};

/// "0.4124" with as many places; what is no number is "nan", whatever its sign.
std::string decimal(double value, int places);

/// "epoch 1.25/3  step 587  loss 0.412  lr 0.0437  2,511 samples/s  ETA 58 s", cut to `width` columns (0: not
/// cut).
std::string progress_line(const ProgressState& state, int width);

struct ProgressOptions {
  enum class Style { Live, Plain } style = Style::Plain;
  bool colour = false;
  double every_seconds = 2;                         // plain lines; a live line is redrawn five times a second
  std::function<int()> width = [] { return 100; };  // of the terminal, whenever a line is drawn
};

/// Writes progress: on a terminal one line that is redrawn in place, elsewhere a plain line every few
/// seconds. A live line that wrapped when its terminal became narrower is cleared from all its rows. `now` is
/// any clock in seconds, the caller's. Not thread-safe.
class Progress {
 public:
  Progress(ProgressOptions options, std::function<void(const std::string&)> write);
  void update(const ProgressState& state, double now);
  /// A line of its own, above the live line.
  void say(const std::string& line);
  /// Ends the live line.
  void finish();

 private:
  void clear();
  ProgressOptions options_;
  std::function<void(const std::string&)> write_;
  double next_ = 0;
  int drawn_ = 0;  // columns of the live line; 0: there is none
};

}  // namespace taxon::report
