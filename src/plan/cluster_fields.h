#pragma once

#include "plan/cluster.h"
#include "plan/fields.h"

namespace taxon::plan {

// The keys of a cluster file; see fields.h.

template <Like<DeviceModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "flops", .sentence = "Operations per second.", .min = 0, .unit = Unit::Flops}, p.flops);
  visit(Field{.key = "memory_bandwidth",
              .sentence = "Bytes read and written per second.",
              .min = 0,
              .unit = Unit::BytesPerSecond},
        p.memory_bandwidth);
  visit(Field{.key = "memory",
              .sentence = "Bytes that a rank can hold; 0: unlimited.",
              .min = 0,
              .unit = Unit::Bytes},
        p.memory);
  visit(Field{.key = "cache",
              .sentence =
                  "A rank that holds at most so many bytes for others to reach (weights, gradients, what "
                  "replicas hand in) works in caches; 0: none does.",
              .min = 0,
              .unit = Unit::Bytes},
        p.cache);
  visit(Field{.key = "cache_bandwidth",
              .sentence = "Bytes read and written per second by such a rank.",
              .min = 0,
              .unit = Unit::BytesPerSecond},
        p.cache_bandwidth);
  visit(Field{.key = "launch",
              .sentence =
                  "Time from asking for a kernel of the compute or the data stream, if that is idle, until "
                  "it begins, and from its end until the rank knows of it.",
              .min = 0,
              .unit = Unit::Seconds},
        p.launch);
  visit(Field{.key = "cores",
              .sentence =
                  "Cores that a compute kernel uses at full speed; 0: the device's share of the host's.",
              .min = 0,
              .max = 1e6},
        p.cores);
}

template <Like<LinkModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "latency",
              .sentence = "From the first byte sent to the first byte received.",
              .min = 0,
              .unit = Unit::Seconds},
        p.latency);
  visit(Field{.key = "overhead",
              .sentence = "For which a message occupies the sender's end besides its bytes.",
              .min = 0,
              .unit = Unit::Seconds},
        p.overhead);
  visit(Field{.key = "bandwidth",
              .sentence = "Payload of each direction.",
              .min = 0,
              .unit = Unit::BytesPerSecond},
        p.bandwidth);
  visit(Field{.key = "burst",
              .sentence = "Bytes that pass at once after the link was idle: the depth of a token bucket.",
              .min = 0,
              .unit = Unit::Bytes},
        p.burst);
  visit(Field{.key = "full_duplex", .sentence = "Both directions at once."}, p.full_duplex);
  visit(Field{.key = "per_rank",
              .sentence = "Each rank has an end of its own; otherwise the ranks of a host share one."},
        p.per_rank);
  visit(Field{.key = "eager",
              .sentence = "A send of up to so many bytes is copied and done at once.",
              .min = 0,
              .unit = Unit::Bytes},
        p.eager);
  visit(Field{.key = "fragment",
              .sentence = "Messages travel in pieces of so many bytes; 0: whole.",
              .min = 0,
              .unit = Unit::Bytes},
        p.fragment);
  visit(Field{.key = "send_time",
              .sentence = "Processor time of the sender for each piece.",
              .min = 0,
              .unit = Unit::Seconds},
        p.send_time);
  visit(Field{.key = "send_speed",
              .sentence = "Bytes that a core can send per second; 0: bytes cost no processor time.",
              .min = 0,
              .unit = Unit::BytesPerSecond},
        p.send_speed);
  visit(Field{.key = "receive_time",
              .sentence = "Processor time of the receiver for each piece.",
              .min = 0,
              .unit = Unit::Seconds},
        p.receive_time);
  visit(Field{.key = "receive_speed",
              .sentence = "Bytes that a core can receive per second; 0: bytes cost no processor time.",
              .min = 0,
              .unit = Unit::BytesPerSecond},
        p.receive_speed);
}

template <Like<HostModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Name; with a count above 1: name0, name1, ..."}, p.name);
  visit(Field{.key = "count", .sentence = "Equal hosts.", .min = 1, .max = 1 << 20}, p.count);
  visit(Field{.key = "devices", .sentence = "Ranks that a host holds.", .min = 1, .max = 4096}, p.devices);
  visit(Field{.key = "cores",
              .sentence = "Cores that the host's ranks can use; 0: processors are not modelled.",
              .min = 0,
              .max = 1e6},
        p.cores);
  visit(Field{.key = "quota_period",
              .sentence = "Above 0: cores is a quota of processor time, dealt out once in so long.",
              .min = 0,
              .max = 1e3,
              .unit = Unit::Seconds},
        p.quota_period);
  visit(Field{.key = "machine", .sentence = "Machine whose cores the host shares; empty: its own."},
        p.machine);
  visit(Field{.key = "shares_memory", .sentence = "Ranks of the host reach each other's memory."},
        p.shares_memory);
  visit(Field{.key = "device", .sentence = "What computes."}, p.device);
  visit(Field{.key = "inside", .sentence = "The link between ranks of the host."}, p.inside);
  visit(Field{.key = "network", .sentence = "The link to other hosts."}, p.network);
}

template <Like<MachineModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Name, for hosts[].machine."}, p.name);
  visit(Field{.key = "cores", .sentence = "Its cores.", .min = 0, .max = 1e6}, p.cores);
}

template <Like<SwitchModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "hosts_per_leaf",
              .sentence = "Hosts that share a leaf switch; 0: all.",
              .min = 0,
              .max = 1 << 20},
        p.hosts_per_leaf);
  visit(Field{.key = "oversubscription",
              .sentence = "The hosts' rates over what passes between leaves, or through the one switch.",
              .min = 1,
              .max = 1e6},
        p.oversubscription);
}

template <Like<StragglerModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "rank", .sentence = "The slow rank, or -1; this or host.", .min = -1}, p.rank);
  visit(Field{.key = "host", .sentence = "The slow host; this or rank."}, p.host);
  visit(Field{.key = "slowdown",
              .sentence = "Kernels take so many times as long, at least 1.",
              .min = 0,
              .max = 1e9},
        p.slowdown);
  visit(Field{.key = "at", .sentence = "From this time on.", .min = 0, .max = 1e6, .unit = Unit::Seconds},
        p.at);
  visit(Field{.key = "until",
              .sentence = "Up to this time; 0: to the end.",
              .min = 0,
              .max = 1e6,
              .unit = Unit::Seconds},
        p.until);
  visit(Field{.key = "probability",
              .sentence = "That a kernel is hit, drawn for each from the run's seed.",
              .min = 0,
              .max = 1,
              .above_min = true},
        p.probability);
}

template <Like<FaultModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "kind", .sentence = "What happens."}, p.kind);
  visit(Field{.key = "rank", .sentence = "kill, slow_device, delay: to this rank, or -1.", .min = -1},
        p.rank);
  visit(Field{.key = "host", .sentence = "slow_device, slow_link, cut_link, delay: to this host."}, p.host);
  visit(Field{.key = "peer", .sentence = "cut_link: between host and this one; empty: all others."}, p.peer);
  visit(Field{.key = "at", .sentence = "From this time on.", .min = 0, .max = 1e6, .unit = Unit::Seconds},
        p.at);
  visit(Field{.key = "until",
              .sentence = "Up to this time; 0: to the end.",
              .min = 0,
              .max = 1e6,
              .unit = Unit::Seconds},
        p.until);
  visit(Field{.key = "factor",
              .sentence = "slow_device, slow_link: takes so many times as long, at least 1.",
              .min = 0,
              .max = 1e9},
        p.factor);
  visit(Field{.key = "bound",
              .sentence = "delay: each delivery waits for a uniform time up to this, in order.",
              .min = 0,
              .max = 1e6,
              .unit = Unit::Seconds},
        p.bound);
}

template <Like<ClusterModel> P, class V>
void visit_fields(P& p, V&& visit) {
  visit(Field{.key = "name", .sentence = "Name of the cluster, for reports."}, p.name);
  visit(Field{.key = "hosts", .sentence = "Hosts, in the order in which ranks fill them."}, p.hosts);
  visit(Field{.key = "machines", .sentence = "Machines whose cores several hosts share."}, p.machines);
  visit(Field{.key = "switch", .sentence = "What joins the hosts."}, p.network_switch);
  visit(Field{.key = "detection",
              .sentence = "From a rank's end until the others learn of it.",
              .min = 0,
              .max = 1e6,
              .unit = Unit::Seconds},
        p.detection);
  visit(Field{.key = "stragglers", .sentence = "Devices that are slower than their model."}, p.stragglers);
  visit(Field{.key = "faults", .sentence = "The fault script."}, p.faults);
}

}  // namespace taxon::plan
