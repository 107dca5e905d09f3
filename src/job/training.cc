#include "job/training.h"

#include "base/failure.h"
#include "base/version.h"
#include "data/held_folder.h"
#include "data/split.h"
#include "exchange/extensions.h"
#include "launch/host.h"
#include "launch/host_memory.h"
#include "net/transport_choice.h"
#include "plan/legality.h"

namespace taxon::job {
namespace {

task::Task<void> capture(task::Task<train::Outcome> training, train::Outcome* outcome) {
  *outcome = co_await training;
}

/// What fails on this rank alone the others hear of too, in its own words.
template <class Body>
auto told(Job& job, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    job.fail(error_from(error));
    throw;
  }
}

}  // namespace

TrainingInputs open_training_inputs(Job& job) {
  plan::Plan plan = job.plan();
  plan.threads = job.process().threads();
  return told(job, [&] {
    auto files = std::make_shared<const data::FileStorage>();
    TrainingInputs inputs = open_training_inputs(plan, *files, job.rank(), job.identity().local_world_size);
    inputs.files = std::move(files);
    return inputs;
  });
}

TrainingInputs open_training_data(Job& job) {
  return told(job, [&] {
    auto files = std::make_shared<const data::FileStorage>();
    TrainingInputs inputs;
    inputs.datasets = data::open_split(job.plan(), *files);
    inputs.files = std::move(files);
    return inputs;
  });
}

train::Outcome train_made(Job& job, const ModelMaker& make, const data::Datasets& data,
                          train::Observer& observer, train::TrainOptions options) {
  plan::Plan plan = job.plan();
  plan.threads = job.process().threads();
  const std::unique_ptr<model::Model> model = told(job, [&] {
    return make(model_context(plan, data.train->shape(), job.rank(), job.identity().local_world_size));
  });
  return train(job, *model, data, observer, std::move(options));
}

train::Outcome train(Job& job, model::Model& model, const data::Datasets& data, train::Observer& observer,
                     train::TrainOptions options) {
  // Model and data are here already, whatever the plan calls them and says of them.
  plan::Catalogue known = exchange::catalogue(job.options().own);
  known.models.clear();
  known.transports = net::transport_names();
  told(job, [&] { plan::require_legal(plan::check_plan(job.plan(), job.size(), known)); });
  options.plan = job.plan();
  options.version = version_number();
  options.memory = {launch::host_id(), launch::host_memory().available};
  options.clock_offset = job.process().clock_offset();
  if (options.stop == nullptr) options.stop = job.options().stop;
  options.own = job.options().own;
  options.failures = &job.process().failures();
  data::FileStorage files;
  data::HeldFolder storage(files, options.out);
  train::TrainContext world{job.process().runtime(), model, data, storage, observer};
  train::Outcome outcome;
  job.run(capture(train::train(world, std::move(options)), &outcome));
  return outcome;
}

}  // namespace taxon::job
