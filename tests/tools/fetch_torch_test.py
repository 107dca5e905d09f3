"""tools/fetch-torch unpacks what a build needs of PyTorch's wheels, keeps it, and says in one sentence why it can't. Its wheels are small ones of the test's own,
found by pip in a folder, without network."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "fetch-torch"
SOURCES = {
    "libc10.so": "#include <string>\nnamespace c10 { void note(const std::string&) {} }",
    "libcudart.so.13": "extern \"C\" int cudaFree(void*) { return 0; }",
    "libtorch_cpu.so": "#include <string>\nextern \"C\" int cudaFree(void*);\nnamespace c10 { void note(const std::string&); }\n"
                       "int begin() { c10::note(\"\"); return cudaFree(nullptr); }",
}


class FetchTorch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        for kind, old in (("new", 0), ("old", 1)):
            for name, text in SOURCES.items():
                source = cls.made / f"{kind}-{name}.cc"
                source.write_text(text)
                linked = [cls.made / kind / other for other in SOURCES if name == "libtorch_cpu.so" and other != name]
                (cls.made / kind).mkdir(exist_ok=True)
                subprocess.run(["g++", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={1 - old}", f"-Wl,-soname,{name}", source, *linked, "-o", cls.made / kind / name],
                               check=True)

        # Whatever newer releases may load, of whatever name.
        (cls.made / "more").mkdir()
        subprocess.run(["g++", "-shared", "-fPIC", "-Wl,-soname,libmystery.so.1", "-x", "c++", os.devnull, "-o", cls.made / "more/libmystery.so.1"], check=True)
        shutil.copy(cls.made / "new/libc10.so", cls.made / "more")
        subprocess.run(["g++", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", "-Wl,--no-as-needed", "-x", "c++", os.devnull, "-x", "none", cls.made / "more/libmystery.so.1",
                        "-o", cls.made / "more/libtorch_cpu.so"], check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.shop, self.kept = pathlib.Path(folder.name, "shop"), pathlib.Path(folder.name, "kept")
        self.shop.mkdir()

    def wheel(self, name, version, files, requires=()):
        """`files`: path inside -> path or text."""
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.shop / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            for inside, what in files.items():
                wheel.writestr(inside, what.read_bytes() if isinstance(what, pathlib.Path) else what)
            lines = "".join(f"Requires-Dist: {one}\n" for one in requires)
            extras = "Provides-Extra: cudart\nProvides-Extra: cupti\nProvides-Extra: cublas\n" if name == "cuda_toolkit" else ""
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}{extras}\nRequires-Dist: of a description\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    def torch(self, version, kind="new", requires=('cuda-toolkit[cublas,cudart]==13.2; platform_system == "Linux"', "nothing-like-it")):
        self.wheel("torch", version, {
            "torch/lib/libtorch_cpu.so": self.made / kind / "libtorch_cpu.so", "torch/lib/libc10.so": self.made / kind / "libc10.so",
            "torch/lib/libtorch_cuda.so": "large", "torch/include/ATen/ATen.h": "// tensors", "torch/include/fmt/format.h": "// not Debian's",
            "torch/__init__.py": ""}, requires)

    def nvidia(self):
        self.wheel("cuda_toolkit", "13.2", {}, ('nvidia-cuda-runtime==13.2.1; extra == "cudart"', 'nvidia-cublas==13.2.1; extra == "cublas"'))
        self.wheel("nvidia_cuda_runtime", "13.2.1", {"nvidia/cu13/lib/libcudart.so.13": self.made / "new" / "libcudart.so.13", "nvidia/cu13/lib/libother.so": "other"})

    def fetch(self, version):
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.shop), "PIP_CONFIG_FILE": os.devnull}
        return subprocess.run([TOOL, version, self.kept], text=True, capture_output=True, env=environment, timeout=300)

    def refused(self, version):
        result = self.fetch(version)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        lines = [line for line in result.stderr.splitlines() if "from PyPI, about" not in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual([path.name for path in self.kept.glob("*")] if self.kept.exists() else ["lock"], ["lock"])
        return lines[0]

    def test_unpacks_what_a_program_without_a_gpu_loads(self):
        self.torch("2.15.0")
        self.torch("2.15.1")
        self.torch("2.9.3")
        self.nvidia()
        result = self.fetch("2.15")
        self.assertEqual((result.returncode, result.stdout), (0, "2.15.1\n"), result.stderr)
        self.assertEqual(sorted(path.name for path in (self.kept / "2.15.1/lib").iterdir()), ["libc10.so", "libcudart.so.13", "libtorch_cpu.so"])
        self.assertEqual(sorted(path.name for path in (self.kept / "2.15.1/include").iterdir()), ["ATen"])
        loaded = subprocess.run(["ldd", self.kept / "2.15.1/lib/libtorch_cpu.so"], text=True, capture_output=True,
                                env={**os.environ, "LD_LIBRARY_PATH": str(self.kept / "2.15.1/lib")}).stdout
        self.assertNotIn("not found", loaded)

    def test_what_is_there_needs_no_wheel(self):
        self.torch("2.15.0")
        self.nvidia()
        self.fetch("2.15.0")
        shutil.rmtree(self.shop)
        for version in ("2.15", "2", "2.15.0"):
            self.assertEqual(self.fetch(version).stdout, "2.15.0\n")
        self.assertEqual(self.fetch("2.1").returncode, 1)  # of which 2.15 is none

    def test_a_release_that_is_not_served(self):
        self.torch("2.15.0")
        self.assertIn("torch==2.99.*", self.refused("2.99"))
        self.assertIn("2.15.0", self.refused("2.99"))

    def test_nobody_serves_anything(self):
        self.assertIn("can't be reached", self.refused("2.15"))

    def test_what_is_no_release(self):
        for version in ("latest", "2.15+cpu", "-r/etc/passwd", "2.15.0.1"):
            result = self.fetch(version)
            self.assertEqual(result.returncode, 2 if version.startswith("-") else 1)
            self.assertFalse(self.kept.exists())

    def test_the_other_abi(self):
        self.torch("2.1.0", "old", ())
        self.assertIn("C++11", self.refused("2.1"))

    def test_a_library_that_nobody_has(self):
        self.torch("2.15.0", requires=())
        self.assertIn("libcudart.so.13", self.refused("2.15"))
        self.torch("2.16.0", "more", ())
        self.assertIn("libmystery.so.1", self.refused("2.16"))


if __name__ == "__main__":
    if not shutil.which("g++") or subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        print("skipped: needs g++ and pip")
        sys.exit(77)
    unittest.main()
