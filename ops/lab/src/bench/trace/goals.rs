//! Metrics of traces, and their goals.

use crate::bench::metric::{Goal, metrics};

metrics! {
    OVERHEAD = "trace_overhead", "ratio", Goal::AtMost(1.03),
        "processor time of all processes for a launch, traced with one request in 100 kept / not traced";
    OVERHEAD_ALL = "trace_overhead_all", "ratio", Goal::AtMost(1.1),
        "the same with every request kept";
    COVER = "trace_cover_p50", "ratio", Goal::AtLeast(0.98),
        "p50 of the share of a request's time that its children cover";
    EXPORT = "trace_export_s_p99", "s", Goal::AtMost(5.0),
        "p99 from the end of a request to the arrival of its spans at the collector";
    SERIES = "trace_series_max", "series", Goal::AtMost(5_000.0),
        "series of the largest page of metrics after 100 tenants launched 10,000 kernels, each of another name";
}
