"""The modules of bench/, as bench/run sees them."""
import importlib.machinery
import importlib.util
import pathlib
import sys

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))


def load_run():
    """bench/run, which is a program without a suffix."""
    loader = importlib.machinery.SourceFileLoader("bench_run", str(BENCH / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
    sys.modules["bench_run"] = module
    loader.exec_module(module)
    return module
