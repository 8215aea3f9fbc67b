//! Metrics of the controller, and their goals.

use crate::bench::metric::{Goal, metrics};

metrics! {
    LIST = "api_list_ms_p99", "ms", Goal::AtMost(20.0),
        "a list of 1,000 tenants with what each holds and how it does";
    LAG = "event_lag_ms_p99", "ms", Goal::AtMost(100.0),
        "from a sync's return in its program to the event of its position at a watcher";
    WATCH = "watch_overhead", "ratio", Goal::AtMost(1.05),
        "processor time of leader, worker and broker for a launch, with 100 watchers of the order / with no controller";
    RSS = "controller_rss_mib", "MiB", Goal::AtMost(40.0), "an idle controller";
    PAGE = "page_kb", "kB", Goal::AtMost(200.0), "all files of the page, compressed";
    PAINT = "first_paint_ms", "ms", Goal::AtMost(100.0), "first paint of the page in a browser";
    FRAME = "weave_frame_ms", "ms", Goal::AtMost(8.0),
        "script and paint of a frame of the weave, with 1,000 sessions and 10,000 positions a second";
}
