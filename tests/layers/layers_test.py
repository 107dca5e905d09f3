#!/usr/bin/env python3
"""The checks find what was planted, and nothing else."""

import pathlib
import re
import unittest

import arrows
import coroutines
import doors
import hash_order
import initialisers
import row_names
import row_tables
from cpp_text import Source, closing, code_only

TABLE = """
| folder | what it holds | may include |
|---|---|---|
| `base/` | types | - |
| `net/` | bytes | base |
| `model/` | models; `torch/` | net base, libtorch |
| `train/` | the loop | all of the above |
"""


class Text(unittest.TestCase):
    def test_comments_and_literals_are_hidden_in_place(self):
        text = 'a("x; {"); // co_await b(1);\nc(\'"\'); /* getenv( \n */ d(R"(co_await e(2);)");'
        code = code_only(text)
        self.assertEqual(len(code), len(text))
        self.assertEqual(code.count("\n"), text.count("\n"))
        for hidden in ("co_await", "getenv", "{", "e(2)"):
            self.assertNotIn(hidden, code)

    def test_digit_separators_are_no_literals(self):
        self.assertEqual(code_only("x = 1'000'000; co_await f(1'0);"), "x = 1'000'000; co_await f(1'0);")


class Initialisers(unittest.TestCase):
    def found(self, text):
        return initialisers.check_initialisers([Source("src/codec/a.cc", text)])

    def test_constants_that_code_initialises_are_found(self):
        self.assertEqual(len(self.found("const Row kRows[] = {\n    kOther[0]};")), 1)
        self.assertEqual(len(self.found("const std::vector<Row> kRows = {a()};\nextern const plan::Rule kRules[1];")), 2)
        self.assertEqual(len(self.found("const Hub::Row Hub::kRows[] = {};")), 1)

    def test_others_pass(self):
        self.assertEqual(self.found("constexpr Row kRows[] = {};\nconstinit const Row A::kRows[] = {};\n"
                                    "const Row& find(int x);\nconst Row& find(int x) {\n  const int y = 1;\n}"), [])


class RowNames(unittest.TestCase):
    ROW = Source("src/codec/rows/top_k.cc", 'return codec_row<O>({.name = "top_k"}, make); if (name == "top_k") return;')

    def found(self, text):
        return row_names.check_row_names([self.ROW, Source("src/train/a.cc", text)])

    def test_a_comparison_outside_the_rows_file_is_found(self):
        self.assertEqual(len(self.found('if (codec.name == "top_k") return;')), 1)
        self.assertEqual(len(self.found('x = "top_k" != name;')), 1)
        self.assertEqual(len(self.found('x = name.starts_with("top_k");')), 1)

    def test_other_uses_and_other_words_pass(self):
        self.assertEqual(self.found('x = find_codec("top_k"); y = name == "none";  // == "top_k"'), [])

    def test_no_rows_is_no_success(self):
        self.assertEqual(len(row_names.check_row_names([Source("src/train/a.cc", "")])), 1)


class RowTables(unittest.TestCase):
    ROW = Source("src/codec/rows/top_k.cc", 'namespace taxon::codec {\nCodecRow top_k() {\n  return {};\n}\n}')

    def found(self, *sources):
        return row_tables.check_row_tables([self.ROW, *sources])

    def test_a_row_that_no_table_names_is_found(self):
        self.assertEqual(len(self.found(Source("src/codec/table.cc", "TAXON_ROW(CodecRow, top_k_two)"))), 1)
        self.assertEqual(len(self.found(Source("src/codec/other.cc", "top_k();"))), 1)

    def test_one_that_a_table_names_passes(self):
        self.assertEqual(self.found(Source("src/codec/table.cc", "TAXON_ROW(CodecRow, top_k)")), [])

    def test_no_rows_is_no_success(self):
        self.assertEqual(len(row_tables.check_row_tables([Source("src/train/a.cc", "")])), 1)


class Arrows(unittest.TestCase):
    table = arrows.read_table(TABLE)

    def count(self, path, text):
        return len(arrows.check_includes([Source(path, text)], self.table))

    def test_table(self):
        self.assertEqual(self.table["base"], set())
        self.assertEqual(self.table["model"], {"net", "base"})
        self.assertEqual(self.table["train"], {"base", "net", "model"})

    def test_strangers_stay_strangers(self):
        table = {"base": set(), "comm": {"base"}, "exchange": {"comm"}, "train": {"exchange"}, "sim": {"comm"}}
        self.assertEqual(arrows.check_strangers(table), [])
        self.assertEqual(len(arrows.check_strangers({**table, "sim": {"comm", "exchange"}})), 1)
        self.assertEqual(len(arrows.check_strangers({**table, "sim": {"train"}})), 2)  # and exchange behind it
        self.assertEqual(len(arrows.check_strangers({**table, "comm": {"sim"}})), 2)  # exchange and train see sim

    def test_includes_along_the_arrows_pass(self):
        self.assertEqual(self.count("src/train/a.cc", '#include "train/b.h"\n#include "net/c.h"\n#include <map>'), 0)

    def test_an_include_against_the_arrows_is_found(self):
        self.assertEqual(self.count("src/net/a.h", '#include "base/b.h"\n#include "train/c.h"'), 1)

    def test_short_paths_are_found(self):
        self.assertEqual(self.count("src/net/a.h", '#include "b.h"'), 1)

    def test_a_header_of_the_system_is_no_modules(self):
        self.assertEqual(self.count("src/base/a.cc", "#include <net/if.h>"), 0)
        self.assertEqual(self.count("src/base/a.cc", '#include "net/if.h"'), 1)

    def test_a_module_outside_the_table_is_found(self):
        self.assertEqual(self.count("src/misc/a.cc", "#include <map>"), 1)

    def test_caged_libraries(self):
        self.assertEqual(self.count("src/model/torch/a.cc", "#include <torch/torch.h>"), 0)
        self.assertEqual(self.count("src/model/a.cc", "#include <torch/torch.h>"), 1)
        self.assertEqual(self.count("src/net/ucx/a.cc", "#include <grpcpp/channel.h>"), 1)
        self.assertEqual(self.count("src/train/a.cc", "  #  include <ATen/ATen.h>"), 1)
        self.assertEqual(self.count("src/net/ucx/a.cc", "#include <ucp/api/ucp.h>"), 0)
        self.assertEqual(self.count("src/net/a.h", "#include <ucp/api/ucp.h>"), 1)
        self.assertEqual(self.count("apps/taxon/a.cc", "#include <ATen/ATen.h>"), 1)

    def test_the_build_follows_the_arrows(self):
        build = "taxon_module(base)\n  taxon_module(net DEPS base train PRIVATE_LIBS model)\n"
        self.assertEqual(len(arrows.check_build(build, self.table)), 1)


class Doors(unittest.TestCase):
    def count(self, path, text):
        return len(doors.check_doors([Source(path, text)]))

    def test_each_door_is_guarded(self):
        for text in (
            "auto t = std::chrono::steady_clock::now();",
            "std::this_thread::sleep_for(d);",
            "std::thread worker(f);",
            'auto* home = std::getenv("HOME");',
            "int s = socket(AF_INET, SOCK_STREAM, 0);",
            "std::mt19937 engine(1);",
            "std::ofstream out(path);",
            "int fd = ::open(path, 0);",
            "auto t = std::chrono::system_clock::now();",
            "auto t = time(nullptr);",
            "auto t = std::time(&now);",
            "gettimeofday(&tv, nullptr);",
            "clock_gettime(CLOCK_REALTIME, &ts);",
            "#include <sys/timerfd.h>",
            "usleep(5);",
            "auto f = std::async(work);",
            "std::jthread worker(f);",
            "pthread_create(&thread, nullptr, body, nullptr);",
            "#include <thread>",
            "if (fork() == 0) return;",
            "for (char** e = environ; *e; ++e) use(*e);",
            "::bind(fd, address, size);",
            "::connect(fd, address, size);",
            "int ready = ::poll(fds, 1, 0);",
            "int fd = epoll_create1(0);",
            "#include <netdb.h>",
            "std::random_device seed;",
            "getrandom(buffer, 8, 0);",
            "std::ifstream in(path);",
            "#include <sys/stat.h>",
            "if (dynamic_cast<sim::EventQueue*>(&executor)) cheat();",
            "auto* real = dynamic_cast<net::UcxTransport*>(&door);",
            "if (typeid(device) == typeid(VirtualDevice)) cheat();",
            '#include "net/loopback/loopback.h"',
            '#include "net/grpc/grpc_transport.h"',
            '#include "tensor/cpu_device.h"',
            '#include "sim/world.h"',
        ):
            self.assertGreaterEqual(self.count("src/train/a.cc", text), 1, text)

    def test_those_below_the_doors_may(self):
        self.assertEqual(self.count("src/task/poll_loop.cc", "auto t = std::chrono::steady_clock::now();"), 0)
        self.assertEqual(self.count("src/data/files.cc", "std::ifstream in(path);"), 0)
        self.assertEqual(self.count("apps/taxon/main.cc", 'std::getenv("RANK");'), 0)
        self.assertEqual(self.count("src/faults/a.cc", '#include "sim/world.h"'), 0)

    def test_those_outside_open_only_the_doors_they_are_for(self):
        self.assertEqual(self.count("src/launch/a.cc", 'if (fork() == 0) std::getenv("RANK"); usleep(5);'), 0)
        self.assertEqual(self.count("src/job/a.cc", '#include "task/poll_loop.h"\nstd::thread life;'), 0)
        self.assertEqual(self.count("src/job/a.cc", 'if (fork() == 0) std::getenv("RANK");'), 2)
        self.assertEqual(self.count("src/launch/a.cc", '#include "net/loopback/loopback.h"'), 1)

    def test_names_that_only_look_like_it(self):
        self.assertEqual(self.count("src/comm/a.cc", "peer.connect(x); // std::thread\nstorage.open(path);"), 0)
        for text in (
            "model.bind(binding); void Model::bind(const Binding& b) {}",
            "group->connect(x); auto t = run.time(0.5); arrival_time(x);",
            "poll(); Clock clock_; int brand(int x); loop.sleep(5);",
            "dynamic_cast<const RecvOp*>(&op)",
            '#include "net/transport.h"',
        ):
            self.assertEqual(self.count("src/comm/a.cc", text), 0, text)


class HashOrder(unittest.TestCase):
    def count(self, *texts):
        return len(hash_order.check_hash_order([Source(f"src/comm/{i}.cc", text) for i, text in enumerate(texts)]))

    def test_planted_iterations_are_found(self):
        for text in (
            "std::unordered_map<int, double> terms; for (auto& [key, term] : terms) sum += term;",
            "std::unordered_set<Rank> late_; void f() { for (Rank rank : this->late_) tell(rank); }",
            "std::unordered_map<int, std::vector<int>> m{}; auto it = m.begin();",
            "void f(const std::unordered_map<int, int>& m) { for (auto x : m) use(x); }",
            "for (auto x : std::unordered_set<int>(a, b)) use(x);",
        ):
            self.assertEqual(self.count(text), 1, text)
        self.assertEqual(self.count("std::unordered_map<int, int> m_;", "for (auto& x : owner.m_) use(x);"), 1)

    def test_looking_up_passes(self):
        self.assertEqual(self.count("std::unordered_map<int, int> m; m.find(1); m[2] = 3; for (int x : list) m.erase(x);"), 0)
        self.assertEqual(self.count("std::map<int, int> m; for (auto& x : m) use(x);"), 0)


class Coroutines(unittest.TestCase):
    def count(self, text, path="src/net/a.cc"):
        return len(coroutines.check_coroutines([Source(path, text)]))

    def test_named_tasks_pass(self):
        for text in (
            "co_await task;",
            "co_await scope.join();",
            "  auto x = co_await a.b;",
            "const auto& [a, b] = co_await pair;",
            "co_return co_await t;",
            "co_return 1 + co_await deeper;",
            "if (co_await enter) {",
            "for (auto& op : ops) co_await *op;",
            "total += co_await tasks[i];",
            "while (!co_await vote) step();",
            "auto v = co_await std::move(task);",
            "if (n > 1) co_await group->barrier;",
        ):
            self.assertEqual(self.count("{ " + text + " }"), 0, text)

    def test_planted_expressions_are_found(self):
        for text in (
            "co_await f(Call{view, type});",
            "co_await f({view, type});",
            "co_await f(Call(view, type));",
            "co_await f(plan::Call(view, type));",
            "co_await f(g(h({})));",
            'co_await f("name");',
            'co_await f(name + "suffix");',
            "co_await Options{1};",
            "co_await Options(1);",
            "co_await task::Yield(executor);",
            "co_await Object{}.f(x);",
            "co_await (n > 1 ? f(x) : g(x));",
            "co_await f(n > 1 ? make(x) : y);",
            "co_await f(n > 1 && make(x).ready());",
            "auto x = co_await task ? make(1) : make(2);",
            "auto x = co_await f(y) == 1 ? make(1) : make(2);",
            "auto x = n > 1 ? co_await f(y) : make(2);",
            "co_await f([x] { return x; });",
            "co_await f([] { return 1; });",
            "co_await f(x, co_await task);",
            "co_await co_await f(x);",
            "co_await f(x = y);",
            "co_await f(new Object);",
            "co_await [&]() -> Task<void> { return g(); }();",
            "use(Options{1}, co_await task);",
            "use(co_await first, co_await second);",
            'std::string s = co_await name + "suffix";',
        ):
            self.assertGreaterEqual(self.count("{ " + text + " }"), 1, text)

    def test_calls_of_names_and_calls_pass(self):
        for text in (
            "co_await f();",
            "co_await f(x, 1'000, -1.5e-3, nullptr, true);",
            "co_await object.member->f(*p, &q, a.b->c[i + 1], std::move(d));",
            "co_await levels_[l].topology->reduce(transfer, values);",
            "co_await tensor::run(runtime.device, runtime.pending(), tensor::Stream::Exchange, std::move(kernel));",
            "co_await f<net::SendOp>(&puts, static_cast<std::int64_t>(n) << 2);",
            "co_await f(n == 1, (a + b) * c % d, ~mask & !flag);",
            "co_await f(g(h(x)), make<std::vector<int>>(x));",
            "co_await f(std::vector<int>(3, x));",
            "co_await row_for(operation, group.size(), bytes).run(group, call);",
            "co_return co_await f(x);",
            "co_return 1 + co_await f(x);",
            "const auto [a, b] = co_await f(x);",
            "weight *= co_await f(x);",
            "if (!co_await f(x)) co_return;",
            "if (n > 1) co_await f(x);",
            "else co_await f(x);",
            "while (co_await f(x) < 3) step();",
            "for (auto* p : all) co_await p->f(x);",
            "(void)co_await f(x);",
            "if (co_await f(x)) y = z ? 1 : 2;",
        ):
            self.assertEqual(self.count("{ " + text + " }"), 0, text)

    def test_operands_that_the_compiler_is_tried_with_pass(self):
        tried = pathlib.Path(__file__).resolve().parents[1] / "task" / "coroutine_forms_test.cc"
        code = code_only(tried.read_text(encoding="utf-8"))
        begins = [match.end() for match in re.finditer(r"\bTAXON_OPERAND\((?!\.)", code)]
        operands = [code[begin : closing(code, begin - 1)] for begin in begins]
        self.assertGreater(len(operands), 50)
        for operand in operands:
            self.assertEqual(self.count("{ auto v = co_await " + operand + "; }"), 0, operand)

    def test_default_arguments_that_braces_build_are_found(self):
        for declaration, count in (
            ("Task<void> f(int n, Call call = {});", 1),
            ("Task<void> f(int n, const Call& call = Call{1, 2}, int m = 0);", 1),
            ("Task<void> f(int n, std::string text = {}, std::optional<Rank> peer = {});", 0),
            ("Task<void> f(int n, int m = 3);", 0),
        ):
            self.assertEqual(self.count(declaration + " Task<void> g() { co_await f(1); }"), count, declaration)
            self.assertEqual(self.count(declaration + " Task<void> g() { co_await h(f(1)); }"), count, declaration)
            self.assertEqual(self.count(declaration + " Task<void> g() { auto task = f(1); co_await task; }"), 0, declaration)

    def test_await_in_a_catch_block_is_found(self):
        self.assertEqual(self.count("try { a(); } catch (const Error& e) { if (x) { co_await t; } }"), 1)
        self.assertEqual(self.count("try { co_await t; } catch (...) { e = current(); } co_await u;"), 0)

    def test_capturing_lambda_coroutines_are_found(self):
        self.assertEqual(self.count("auto f = [this, x](int n) -> Task<void> { co_return; };"), 1)
        self.assertEqual(self.count("auto f = [&] { co_await t; };"), 1)
        self.assertEqual(self.count("auto f = [](Net& net) -> Task<void> { co_await t; };"), 0)
        self.assertEqual(self.count("auto f = [&] { g([](int) -> Task<void> { co_return; }); };"), 0)
        self.assertEqual(self.count("table[i] = f(x); { co_return; }"), 0)
        self.assertEqual(self.count("auto f = [&](int n) { co_return; };", "tests/net/a_test.cc"), 0)


if __name__ == "__main__":
    unittest.main()
