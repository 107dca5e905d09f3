#pragma once

#include <functional>
#include <string>

#include "job/run_lock.h"

namespace taxon::job {

/// What may be done with an output folder that holds a run already.
enum class Existing { Refuse, Resume, Overwrite };

/// Finds why a run can't go into the folder, and changes nothing there. Throws Error{Usage} if a run is in it
/// and `existing` refuses, or if somebody uses it now; Error{Output} if it can't be written.
void check_run_folder(const std::string& folder, Existing existing);

/// The output folder of a run that begins, for the one process that writes to it. What is there stays as it
/// is until all is known to be good (begin()); what is replaced stays aside until there is something in its
/// place (secured()). Files that are not a run's are never touched.
class RunFolder {
 public:
  /// Throws as check_run_folder(). `say`: lines for the log.
  RunFolder(std::string folder, Existing existing, std::function<void(const std::string&)> say);
  ~RunFolder();

  /// All ranks, the data and the model are there. Overwrite: the old run moves aside. Throws Error{Output}.
  void begin();
  /// This run has a checkpoint: the old one goes.
  void secured();

 private:
  const std::string folder_;
  const Existing existing_;
  const std::function<void(const std::string&)> say_;
  RunLock lock_;
  enum class Old { None, Aside } old_ = Old::None;
};

}  // namespace taxon::job
