"""The doors: above task, net, control and tensor nobody asks the machine for time, bytes, threads or settings, nor which
family of doors it holds. Launchers, the rank's process and what measures machines stand outside: each opens the doors it is for."""

import re

_BELOW = ("src/task/", "src/net/", "src/control/", "src/tensor/")
_OUTSIDE = ("src/launch/", "src/job/", "src/planner/")
_CALL = r"(?<![\w.>:])(?:::|std::)?"  # a free function, not a member or another namespace's

# (what, how it looks in code, where it is allowed besides the doors themselves, what to use instead)
_DOORS = (
    ("a clock", r"\b(steady|system|high_resolution|utc|tai|gps|file)_clock\b|" + _CALL + r"(clock_gettime|gettimeofday|timespec_get)\s*\(|"
     r"\b(std)?::(time|clock)\s*\(|" + _CALL + r"time\s*\(\s*(nullptr|NULL|0|&\w+)\s*\)|<(ctime|time\.h|sys/time\.h|sys/timerfd\.h)>",
     _OUTSIDE, "Executor::now()"),
    ("a sleep", r"\b(sleep_for|sleep_until)\b|" + _CALL + r"(u|nano)?sleep\s*\(", _OUTSIDE, "task::SleepUntil"),
    ("a thread", r"\bstd::(thread|jthread|async|this_thread)\b|\bpthread_\w+|<(thread|future|pthread\.h|condition_variable|semaphore|barrier|latch)>",
     _OUTSIDE, "a lane of tensor::Device"),
    ("a process", _CALL + r"(v?fork|posix_spawnp?|execv\w*|execl\w*|popen|system)\s*\(", ("src/launch/",), "nothing: launchers start processes"),
    ("the environment", r"\b(secure_)?getenv\b|\b(set|put)env\b|\benviron\b", ("src/launch/",), "the plan, filled in by apps/taxon"),
    ("a socket", _CALL + r"(socket(pair)?|connect|accept4?|listen|epoll_\w+|ppoll|recvfrom|sendto|getaddrinfo)\s*\(|(?<!\w)::(bind|poll|select|send|recv)\s*\(|"
     r"<(sys/socket|sys/un|sys/epoll|sys/eventfd|poll|netdb|netinet/\w+|arpa/inet|ifaddrs)\.h>",
     ("src/launch/",), "net::Transport"),
    ("chance", r"\bstd::(random_device|mt19937(_64)?|default_random_engine|minstd_rand0?)\b|" + _CALL + r"(s?rand|random|getrandom|getentropy|arc4random\w*)\s*\(|<random>",
     ("src/base/rng",), "Rng (base/rng.h)"),
    ("a file", r"\bstd::[io]?fstream\b|\bfopen\s*\(|(?<![\w.>])::open\s*\(|\bmmap\s*\(|<(fcntl\.h|fstream|filesystem|sys/stat\.h|dirent\.h)>",
     ("src/data/", "src/plan/", "src/report/", "src/model/torch/", *_OUTSIDE), "data::Storage"),
    ("which family of doors it holds", r"\bdynamic_cast\s*<[^>]*?\w*(Transport|Device|Executor|Storage|Queue|Loop|Network|World)\b|"
     r"\btypeid\s*\(", ("src/model/torch/analyser",), "what every family has"),
)

# Files, that is disks: recipes are read by plan, outputs are written by report (it may not include data), and
# data holds the door itself. libtorch opens its own files. The analyser asks nodes of libtorch's graphs for their types,
# which are no doors.

# Headers of one family of a door, which would tell the code above that it holds this one. The rank's process, the
# planner, the virtual world and what drives it choose a family.
_FAMILIES = r'^[ \t]*#[ \t]*include[ \t]*"((?:net/(?:(?:loopback|ucx|tcp|grpc|faulty)/|transport_choice|routed_transport)|sim/|task/poll_loop|tensor/cpu_device|control/session)[^"]*)"'
_CHOOSE = ("src/sim/", "src/faults/", "src/job/", "src/planner/")


def check_doors(sources):
    found = []
    for source in sources:
        if source.module is None or source.path.startswith(_BELOW):
            continue
        for what, pattern, allowed, instead in _DOORS:
            if source.path.startswith(allowed):
                continue
            for match in re.finditer(pattern, source.code):
                line = source.line(match.start())
                found.append(f"{source.path}:{line}: {what} ({match.group().strip()}); use {instead}")
        if source.path.startswith(_CHOOSE):
            continue
        for match in re.finditer(_FAMILIES, source.text, re.MULTILINE):
            line = source.line(match.start(1))
            found.append(f'{source.path}:{line}: "{match.group(1)}" is one family of a door; include the door itself')
    return found
