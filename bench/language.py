"""gpt on the King James Bible (recipes/kjv-gpt.yaml): bits per byte of the test chapters after as many samples with four workers as with one, means over
seeds; recipes of recipes/systems that compress, or whose replicas meet now and then, beside them. No times are taken: such a run may share the machine."""
import dataclasses
import os
import statistics

from harness import equal, preset, texts
from harness.build import ROOT
from harness.rows import Row

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "libucx-dev", *texts.PACKAGES)
PATHS = ("src", "apps/taxon", "bench/language.py", "bench/harness", "recipes/kjv-gpt.yaml", "recipes/systems", "tools/export_bible.py")
RECIPE = os.path.join(ROOT, "recipes", "kjv-gpt.yaml")
WORKERS = 4
SAMPLES, TESTED = {"smoke": 128, "quick": 1600, "full": 10000}, {"smoke": 16, "quick": 400, "full": 0}  # windows; 0: all
SEEDS = {"smoke": (1,), "quick": (1,), "full": (1, 2, 3)}
MOST_APART = 0.005
LEARNT = 5  # bits per byte; a guess among all bytes has 8, and weights as they begin 7.9
ALONE = "1 worker"

# What kjv-gpt is, for recipes that train something else.
MODEL = ("model.name=gpt", "model.layers=4", "model.width=128", "model.heads=4", "data.dataset=text", "data.context=128", "batch.global=32", "length.epochs=0")
RULE = ("optimiser.rule=adamw", "optimiser.beta2=0.95", "optimiser.weight_decay=0.1", "optimiser.clip_norm=1", "learning_rate.base=0.003", "learning_rate.schedule=cosine")


@dataclasses.dataclass(frozen=True)
class System:
    """`overrides`: beside the model. Codecs whose error a variance would take for the gradient's keep the rule and the rate of their recipe, which nobody
    chose for this model."""
    name: str
    overrides: tuple = RULE

    def keeps_its_rule(self):
        return RULE[0] not in self.overrides


# Its warm-up is 15 % of the steps of a full run, as published.
WARMED_UP = System("1bit-adam", ("learning_rate.base=0.003", "learning_rate.schedule=cosine", "optimiser.freeze_steps=47", "exchange.levels.0.codec.dense_steps=47"))
SYSTEMS = (System("qsgd"), System("local-sgd"), System("diloco"), System("powersgd", ()),  # the quick ones
           System("diloco-int8"), System("sparse-loco"), System("streaming-diloco"), System("slowmo"), System("cntk-bmuf"), System("post-local-sgd"),
           System("topk", ()), System("dgc", ()), WARMED_UP)
QUICK, SMOKE = SYSTEMS[:4], SYSTEMS[1:2]


def targets(peers_only):
    return ["taxon"]


def systems(session):
    return SMOKE if session.smoke() else QUICK if session.quick() else SYSTEMS


def common(session, seed):
    samples = SAMPLES[session.mode]
    return (f"data.path={texts.bible(session)}", f"seed={seed}", f"length.samples={samples}", f"learning_rate.warmup_samples={samples // 10}",
            f"data.test_limit={TESTED[session.mode]}", "report.metrics_steps=1", "evaluation.every_epochs=0")


def train(session, workers, seed, system=None):
    """The run's summary."""
    if system is None:
        return preset.train_recipe(session, RECIPE, workers, None, common(session, seed))[0]
    return preset.train(session, system.name, workers, None, (*MODEL, *system.overrides, *common(session, seed)))[0]


def apart(ours, theirs):
    """As a part of theirs."""
    return abs(ours / theirs - 1)


def fill(row, session, runs, alone=None):
    """`runs`: by seed; `alone`: row of one worker. All begin with the same weights and the same batch."""
    bits = {seed: summary["test_bits_per_byte"] for seed, summary in runs.items()}
    first = {seed: summary["first_loss"] for seed, summary in runs.items()}
    row.unit, row.ours = "bits/byte", statistics.mean(bits.values())
    row.settings = {"by_seed": {str(seed): value for seed, value in bits.items()}, "first_losses": {str(seed): value for seed, value in first.items()},
                    "samples": SAMPLES[session.mode], "bytes_sent_per_step": runs[min(runs)]["bytes_sent_per_step"],
                    "written": (runs[min(runs)].get("sample") or {}).get("written")}
    row.verified = session.smoke() or row.ours < LEARNT
    if alone:
        row.theirs, row.ratio = alone.ours, alone.ours / row.ours
        row.settings["apart"] = apart(row.ours, row.theirs)
        row.verified = row.verified and all(abs(loss - alone.settings["first_losses"][str(seed)]) <= equal.TOLERANCE for seed, loss in first.items())
    return row


def row_of(case, workers, peer=None):
    return Row("language", case, "none" if workers == 1 else "shared memory", workers, peer=peer)


def run(session):
    if session.peers_only:
        return
    seeds, alone = SEEDS[session.mode], row_of("kjv-gpt", 1)
    together = row_of("kjv-gpt, dense", WORKERS, ALONE)
    others = [(system, row_of(f"{system.name}{', its own rule' if system.keeps_its_rule() else ''}", WORKERS, ALONE)) for system in systems(session)]
    wanted = [(system, row) for system, row in ((None, together), *others) if not session.rows.has(row)]
    if not wanted:
        return
    found = session.rows.find(alone)
    if not found:
        found = fill(alone, session, {seed: train(session, 1, seed) for seed in seeds})
        session.rows.add(found)
    for system, row in wanted:
        fill(row, session, {seed: train(session, WORKERS, seed, system) for seed in seeds}, found)
        session.rows.add(row.want("apart", at_most=MOST_APART) if system is None else row)


def summary(rows):
    return [f"{row.case}, {row.ranks} workers, wrote: {row.settings['written']!r}" for row in rows if row.ranks == WORKERS and row.settings.get("written")][:1]
