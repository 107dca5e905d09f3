"""taxon train, end to end: outputs, determinism, interruption, launchers, wrong input."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import unittest

from taxon_run import HANGS, PROGRAM, RECIPE, TaxonTest, clean_environment


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Outputs(TaxonTest):
    def test_two_workers_leave_everything_a_user_expects(self):
        began = time.time()
        result = self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--set", "report.trace=true")
        summary = self.summary("run")
        for key in ("test_accuracy", "test_loss", "train_loss", "steps", "epochs", "samples", "samples_per_second", "step_ms",
                    "compute_ms", "exposed_communication_ms", "bytes_sent_per_step", "world_size", "transport", "parameters",
                    "parameter_hash", "seed", "wall_seconds", "peak_rss_bytes"):
            self.assertIn(key, summary)
        self.assertEqual(summary["world_size"], 2)
        self.assertEqual(summary["steps"], 100)
        self.assertEqual(summary["samples"], 4000)
        self.assertGreater(summary["test_accuracy"], 0.5)
        self.assertGreater(summary["bytes_sent_per_step"], 0)
        self.assertIn("p95", summary["step_ms"])
        self.assertIn("%", result.stdout)
        run = self.folder / "run"
        for name in ("plan.yaml", "metrics.jsonl", "model.safetensors", "trace.json", "checkpoints/latest"):
            self.assertTrue((run / name).exists(), name)
        self.assertTrue(list(run.glob("**/events.out.tfevents.*")))
        trace = json.loads((run / "trace.json").read_text())
        self.assertEqual({event["pid"] for event in trace["traceEvents"]}, {0, 1})
        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertIn("loss/train", metrics[0])
        times = [line["wall_time"] for line in metrics]
        self.assertEqual(times, sorted(times))
        self.assertTrue(began <= times[0] and times[-1] <= time.time(), times)
        for one, later in zip(metrics, metrics[1:]):  # with what stood between the steps
            self.assertGreaterEqual(later["wall_time"] - one["wall_time"], later["seconds"] - one["seconds"] - 1e-5)
        # The resolved plan is a recipe that gives the same run.
        self.taxon("train", "run/plan.yaml", "--workers", 2, "--out", "again")
        self.assertEqual(self.summary("again")["parameter_hash"], summary["parameter_hash"])

    def test_every_step_has_its_line_and_tests_stand_between_them(self):
        self.taxon("train", self.recipe, "--out", "run", "--set", "report.metrics_steps=1", "--set", "length.steps=60", "--set", "evaluation.every_epochs=0.4")
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if "loss/train" in line], [*range(1, 61)])
        self.assertGreater(len(lines), 61)
        for name in ("step", "wall_time", "seconds"):
            self.assertEqual([line[name] for line in lines], sorted(line[name] for line in lines))

    def test_one_worker_needs_no_network(self):
        self.taxon("train", self.recipe, "--out", "run")
        self.assertEqual(self.summary("run")["world_size"], 1)
        self.assertEqual(self.summary("run")["bytes_sent_per_step"], 0)

    def test_hyperparameters_are_chosen_without_the_test_set(self):
        aside = ["--set", "data.validation=500", "--set", "length.epochs=1"]
        self.taxon("train", self.recipe, "--out", "test", *aside)
        chosen = self.taxon("train", self.recipe, "--out", "validation", *aside, "--set", "evaluation.split=validation")
        one, other = self.summary("test"), self.summary("validation")
        self.assertEqual(one["samples"], 1500)  # of 2000
        self.assertEqual(one["parameter_hash"], other["parameter_hash"])
        self.assertNotIn("test_accuracy", other)
        self.assertGreater(other["validation_accuracy"], 0.3)
        self.assertNotEqual(other["validation_loss"], one["test_loss"])
        self.assertIn("validation", chosen.stdout)
        self.assertIn('"accuracy/validation"', (self.folder / "validation" / "metrics.jsonl").read_text())
        wrong = self.taxon("train", self.recipe, "--out", "no", "--set", "evaluation.split=validation", code=2)
        self.assertIn("data.validation", wrong.stderr)

    def test_dry_run_starts_nothing(self):
        result = self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--dry-run")
        self.assertIn("train_limit: 2000", result.stdout)
        self.assertNotIn("learning_rate:", result.stdout)  # as by default
        self.assertIn("per step", result.stdout)
        result = self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--dry-run", "--all")
        self.assertIn("learning_rate:", result.stdout)
        self.assertFalse((self.folder / "run").exists())

    def test_a_finished_run_is_not_replaced_unasked(self):
        self.taxon("train", self.recipe, "--out", "run")
        before = self.summary("run")
        result = self.taxon("train", self.recipe, "--out", "run", code=2)
        self.assertIn("--overwrite", result.stderr)
        self.assertEqual(self.summary("run"), before)
        self.taxon("train", self.recipe, "--out", "run", "--overwrite", "--set", "length.epochs=1")
        self.assertEqual(self.summary("run")["steps"], 50)


class Interruption(TaxonTest):
    def interrupt(self, sig):
        long = ("--set", "length.epochs=40")
        self.taxon("train", self.recipe, "--workers", 2, "--out", "whole", *long, "--set", "report.tensorboard=false")
        process = self.start("train", self.recipe, "--workers", 2, "--out", "run", *long)
        self.wait_until(lambda: self.steps_seen("run") >= 20, "training")
        process.send_signal(sig)
        self.assertEqual(process.wait(HANGS), 143, self.log())
        self.assertFalse((self.folder / "run/summary.json").exists() and self.summary("run").get("interrupted") is False)
        metrics = self.folder / "run/metrics.jsonl"
        metrics.write_bytes(metrics.read_bytes()[:-9])  # as a full disk leaves it
        self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--resume", *long)
        self.assertTrue(all(json.loads(line) for line in metrics.read_text().splitlines()))
        self.assertEqual(self.summary("run")["steps"], self.summary("whole")["steps"])
        self.assertEqual(self.summary("run")["parameter_hash"], self.summary("whole")["parameter_hash"])

    def test_ctrl_c_saves_and_resuming_is_bit_identical(self):
        self.interrupt(signal.SIGINT)

    def test_sigterm_does_too(self):
        self.interrupt(signal.SIGTERM)


class Launchers(TaxonTest):
    def join(self, dialect, world, *sets, code=0, **more):
        processes = []
        for rank in range(world):
            environment = clean_environment(**dialect(rank, world), **more)
            processes.append(self.start("train", self.recipe, "--out", "run", *sets, environment=environment, log=self.folder / f"log{rank}"))
        codes = [process.wait(HANGS) for process in processes]
        logs = [(self.folder / f"log{rank}").read_text() for rank in range(world)]
        self.assertEqual(codes, [code] * world, "\n".join(logs))
        return logs

    def test_plain_variables(self):
        port = free_port()
        logs = self.join(lambda rank, world: {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, 3)
        self.assertEqual(self.summary("run")["world_size"], 3)
        self.assertIn("RANK", logs[0])

    def test_a_recipe_says_where_rank_0_is(self):
        port = free_port()
        logs = self.join(lambda rank, world: {"RANK": rank, "WORLD_SIZE": world}, 2, "--set", f"control.address=127.0.0.1:{port}")
        self.assertIn(f"rank 0 at 127.0.0.1:{port}", logs[0])

    def test_torchrun_variables_with_a_secret(self):
        port = free_port()
        self.join(lambda rank, world: {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world,
                                       "GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                       "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": 0}, 2, TAXON_SECRET="abc")

    def test_open_mpi_variables_on_one_host(self):
        job = {"OMPI_MCA_orte_hnp_uri": "1234567.0;tcp://x", "PMIX_NAMESPACE": "n12345"}
        self.join(lambda rank, world: {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world,
                                       "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": world, **job}, 2)

    def test_different_secrets_do_not_join(self):
        port, join = free_port(), self.patience(6)
        processes = []
        for rank in range(2):
            environment = clean_environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TAXON_SECRET=f"secret {rank}")
            processes.append(self.start("train", self.recipe, "--out", "run", "--set", f"control.join_seconds={join}",
                                        environment=environment, log=self.folder / f"log{rank}"))
        self.assertEqual([process.wait(HANGS) for process in processes], [69, 69])
        self.assertIn("secret", (self.folder / "log1").read_text())

    def test_a_rank_that_cannot_begin_tells_the_others_why(self):
        port = free_port()
        processes = []
        for rank in range(2):
            environment = clean_environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **({"UCX_TLS": "nowhere"} if rank else {}))
            processes.append(self.start("train", self.recipe, "--out", "run", environment=environment, log=self.folder / f"log{rank}"))
        codes = [process.wait(HANGS) for process in processes]
        log = (self.folder / "log0").read_text()
        self.assertEqual(codes, [75, 71], log)
        self.assertIn("rank 1 ended the run (transport): UCX can't start", log)

    def test_plans_that_differ_do_not_train(self):
        port, join = free_port(), self.patience(6)
        processes = []
        for rank in range(2):
            environment = clean_environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            processes.append(self.start("train", self.recipe, "--out", "run", "--set", f"seed={rank}", "--set", f"control.join_seconds={join}",
                                        environment=environment, log=self.folder / f"log{rank}"))
        self.assertEqual([process.wait(HANGS) for process in processes], [69, 69])


class Cores(TaxonTest):
    def cores_of_compute(self, *more):
        """By rank: the cores that the thread may use which computes."""
        process = self.start("train", self.recipe, "--workers", 2, "--out", "run", "--set", "length.epochs=1000", "--set", "threads=1", *more)
        self.wait_until(lambda: self.steps_seen("run") > 5, "training")
        cores = {}
        for rank, pid in self.workers("run").items():
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                if (thread / "comm").read_text().strip() == "taxon-compute":
                    cores[rank] = os.sched_getaffinity(int(thread.name))
        process.terminate()
        process.wait(HANGS)
        return cores

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_workers_of_a_host_share_its_cores(self):
        cores = self.cores_of_compute()
        self.assertEqual(cores[0] & cores[1], set())
        self.assertEqual(cores[0] | cores[1], os.sched_getaffinity(0))

    def test_workers_may_use_all_cores(self):
        cores = self.cores_of_compute("--set", "cores=all")
        self.assertEqual([cores[0], cores[1]], [os.sched_getaffinity(0)] * 2)


class Grpc(TaxonTest):
    def setUp(self):
        super().setUp()
        self.need_grpc()

    def train(self, kind, *more):
        self.taxon("train", self.recipe, "--workers", 3, "--out", kind, "--set", f"transport.kind={kind}", *more)
        return self.summary(kind)

    def test_a_run_over_grpc_ends_as_over_ucx(self):
        over_ucx = self.train("tcp")
        for kind in ("grpc", "grpc-unary"):
            with self.subTest(kind=kind):
                over_grpc = self.train(kind)
                self.assertEqual(over_grpc["transport"], f"{kind} over tcp lo")
                self.assertEqual(over_grpc["parameter_hash"], over_ucx["parameter_hash"])
                self.assertEqual(over_grpc["bytes_sent_per_step"], over_ucx["bytes_sent_per_step"])

    def test_servers_work_over_grpc(self):
        levels = ("--set", "exchange.levels=[{topology: servers}]", "--set", "optimiser.rule=sgd")
        self.assertEqual(self.train("grpc", *levels)["parameter_hash"], self.train("tcp", *levels)["parameter_hash"])


class Order(TaxonTest):
    PLAN = ("--workers", 4, "--set", "exchange.levels=[{topology: servers, staleness: -1, apply: 1}]", "--set", "mesh.servers=1",
            "--set", "optimiser.rule=sgd")

    def test_a_run_is_repeated_in_its_order(self):
        self.taxon("train", self.recipe, *self.PLAN, "--out", "first", "--record-order", "orders/order.txt")
        again = self.taxon("train", self.recipe, *self.PLAN, "--out", "again", "--follow-order", "orders/order.txt",
                           "--record-order", "orders/again.txt", "--set", "transport.kind=tcp")
        self.assertEqual(self.summary("again")["parameter_hash"], self.summary("first")["parameter_hash"])
        self.assertEqual(self.summary("again")["staleness"], self.summary("first")["staleness"])
        self.assertIn("bit for bit", again.stderr)
        self.assertEqual(list((self.folder / "orders").glob("*.probe")), [])

    def test_what_cannot_be_followed_is_refused_before_anything_starts(self):
        result = self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--record-order", "order.txt", code=2)
        self.assertIn("workers keep step", result.stderr)
        self.taxon("train", self.recipe, *self.PLAN, "--out", "first", "--record-order", "order.txt")
        result = self.taxon("train", self.recipe, *self.PLAN[2:], "--workers", 3, "--out", "run", "--set", "seed=9",
                            "--follow-order", "order.txt", code=2)
        for words in ("is of 4 ranks, and this run has 3", "seed was 3 and is 9"):
            self.assertIn(words, result.stderr)
        self.taxon("train", self.recipe, *self.PLAN, "--out", "first", "--resume", "--follow-order", "order.txt", code=2)
        order = self.folder / "order.txt"
        order.write_text(order.read_text()[:-20])
        result = self.taxon("train", self.recipe, *self.PLAN, "--out", "run", "--follow-order", "order.txt", code=65)
        self.assertIn("changed or cut short", result.stderr)
        result = self.taxon("train", self.recipe, *self.PLAN, "--out", "run", "--record-order", "order.txt/x", code=73)
        self.assertIn("order.txt/x", result.stderr)
        self.assertFalse((self.folder / "run").exists())


class WrongInput(TaxonTest):
    def test_every_mistake_is_listed_at_once_and_nothing_starts(self):
        self.recipe.write_text("modle: {name: cnn}\nbatch: {global: -3}\nlearning_rate: {base: fast}\nlength: {epochs: 1, steps: 5}\n")
        result = self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--set", "exchange.inflight=2", code=2)
        for words in ("modle", "did you mean model", "batch.global", "learning_rate.base", "exchange.in_flight"):
            self.assertIn(words, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.folder / "run").exists())

    def test_contradictions_are_refused(self):
        self.recipe.write_text(RECIPE.replace("{global: 40}", "{global: 40, per_worker: 3}").replace("{epochs: 2}", "{epochs: 2, steps: 9}"))
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "model.name=cmm", code=2)
        for words in ("batch.per_worker", "length.", "cnn"):
            self.assertIn(words, result.stderr)

    def test_missing_files(self):
        self.taxon("train", "nothing.yaml", code=2)
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "data.dataset=idx", "--set", "data.path=/nowhere", code=65)
        self.assertIn("/nowhere", result.stderr)
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "model={torchscript: missing.pt}", code=65)
        self.assertIn("missing.pt", result.stderr)
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "model.name=missing.pt2", code=65)
        self.assertIn("missing.pt2", result.stderr)
        network = pathlib.Path(__file__).parent.parent / "model/torch/exported/networks/mlp.pt2"
        result = self.taxon("train", self.recipe, "--out", "run", "--set", f"model.name={network}", code=65)
        self.assertIn("takes inputs of shape [batch, 1, 6, 6], and the data set's are [batch, 1, 28, 28]", result.stderr)
        self.assertFalse((self.folder / "run" / "summary.json").exists())

    def test_an_unwritable_output_folder(self):
        (self.folder / "file").write_text("")
        result = self.taxon("train", self.recipe, "--out", "file/run", code=73)
        self.assertIn("file/run", result.stderr)

    def test_a_damaged_checkpoint_and_one_of_another_model(self):
        self.taxon("train", self.recipe, "--out", "run")
        self.taxon("train", self.recipe, "--out", "run", "--resume", "--set", "model.name=cnn", code=66)
        latest = (self.folder / "run/checkpoints/latest").read_text().strip()
        weights = self.folder / "run/checkpoints" / latest.split("/")[-1] / "model.safetensors"
        data = weights.read_bytes()
        weights.write_bytes(data[: len(data) // 2])
        result = self.taxon("train", self.recipe, "--out", "run", "--resume", "--set", "length.epochs=3", code=66)
        self.assertIn("model.safetensors", result.stderr)

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            environment = clean_environment(RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=taken.getsockname()[1])
            result = self.taxon("train", self.recipe, "--out", "run", code=69, environment=environment)
        self.assertIn("in use", result.stderr)

    def test_two_launchers_that_disagree(self):
        environment = clean_environment(RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=1, OMPI_COMM_WORLD_RANK=1,
                                        OMPI_COMM_WORLD_SIZE=2)
        self.taxon("train", self.recipe, "--out", "run", code=2, environment=environment)

    def test_help_and_version(self):
        self.assertIn("train", self.taxon("--help").stdout)
        self.assertIn("--workers", self.taxon("train", "--help").stdout)
        self.assertIn("UCX", self.taxon("--version").stdout)
        self.assertIn("cores", self.taxon("doctor").stdout)


if __name__ == "__main__":
    unittest.main()
