//! The metrics of `warploom bench bus`, and their goals.

use super::metric::{Goal, metrics};

metrics! {
    SYNC_US = "sync_launch_us", "us", Goal::None,
        "p50 of one launch and its sync, client -> leader -> worker -> client";
    SYNC_RATIO = "sync_launch_ratio", "ratio", Goal::AtMost(1.25),
        "that / p50 of a bare three-hop relay with messages of the same sizes";
    ENQUEUE_NS = "enqueue_ns", "ns", Goal::AtMost(300.0),
        "mean time of an asynchronous launch in its caller's thread, in bursts of 1000";
    ENQUEUE_ALLOCS = "enqueue_allocs", "allocations", Goal::AtMost(0.0),
        "memory allocations per asynchronous launch in its caller's thread";
    LAUNCHES = "launches_per_s", "1/s", Goal::AtLeast(300_000.0),
        "empty kernels end to end, from first enqueued to last known done, batches of 64";
    LAUNCHES_RATIO = "launches_ratio", "ratio", Goal::AtLeast(0.3),
        "that / launches in what a bare publisher and subscriber move of such batches";
    TAKEOVER = "takeover_ms", "ms", Goal::AtMost(50.0),
        "SIGKILL of the leader to its successor's first grant, broker healthy";
    HEARTBEATS = "takeover_by_heartbeats_ms", "ms", Goal::AtMost(1_500.0),
        "the same where the broker does not say that a connection has closed";
    HANDOVER = "handover_ms", "ms", Goal::AtMost(300.0),
        "SIGTERM to the leader to its successor's first grant";
    BROKER_START = "broker_start_ms", "ms", Goal::AtMost(500.0),
        "start of a broker with users and permissions, until it can be used";
    BROKER_START_RATIO = "broker_start_ratio", "ratio", Goal::None,
        "that / a bare nats-server with JetStream until it takes a connection";
    LEADER_RSS = "leader_rss_mib", "MiB", Goal::AtMost(30.0),
        "resident memory of an idle leader";
    WORKER_RSS = "worker_rss_mib", "MiB", Goal::AtMost(40.0),
        "resident memory of an idle worker";
    SESSION = "session_kib", "KiB", Goal::AtMost(64.0),
        "growth of broker, leader, worker and client per idle session, over 1000 of one client";
    BINARY = "binary_mib", "MB", Goal::AtMost(30.0),
        "size of the stripped binary, millions of bytes";
}
