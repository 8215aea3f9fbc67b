//! Costs of calls and facts of the device, from the recording of a real one.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Nanos;

/// Recorded on an H200; `tests/gpu/estimates.md` defines the fields.
const RECORDED: &str = include_str!("../../gpu/costs.json");

/// Nanoseconds of the empty kernel on the device. It is assumed: the recording has no figure for it.
pub(crate) const EMPTY: Nanos = 1_000;
/// Nanoseconds of loading machine code that was linked before. It is assumed.
const LINKED_LOAD: Nanos = 100_000;

/// Functions that were not measured, each with a measured one that costs about as much.
const LIKE: [(&str, &str); 27] = [
    ("cuStreamCreateWithPriority", "cuStreamCreate"),
    ("cuLaunchKernelEx", "cuLaunchKernel"),
    ("cuMemsetD16Async", "cuMemsetD8Async"),
    ("cuMemsetD32Async", "cuMemsetD8Async"),
    ("cuEventElapsedTime", "cuEventQuery"),
    ("cuFuncSetAttribute", "cuFuncGetAttribute"),
    ("cuFuncGetParamInfo", "cuFuncGetAttribute"),
    ("cuModuleGetGlobal_v2", "cuModuleGetFunction"),
    (
        "cuOccupancyMaxActiveClusters",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    ),
    ("cuLinkAddData_v2", "cuModuleLoadData"),
    ("cuCtxGetStreamPriorityRange", TRIFLE),
    ("cuDeviceGet", TRIFLE),
    ("cuDeviceGetAttribute", TRIFLE),
    ("cuDeviceGetName", TRIFLE),
    ("cuDeviceGetUuid_v2", TRIFLE),
    ("cuDevicePrimaryCtxRetain", TRIFLE),
    ("cuDeviceTotalMem_v2", TRIFLE),
    ("cuDriverGetVersion", TRIFLE),
    ("cuGetErrorName", TRIFLE),
    ("cuInit", TRIFLE),
    ("cuLinkComplete", TRIFLE),
    ("cuLinkCreate_v2", TRIFLE),
    ("cuLinkDestroy", TRIFLE),
    ("cuMemGetAllocationGranularity", TRIFLE),
    ("cuMemRetainAllocationHandle", TRIFLE),
    ("cuTensorMapEncodeIm2col", TRIFLE),
    ("cuTensorMapEncodeTiled", TRIFLE),
];
/// The cheapest measured call.
const TRIFLE: &str = "cuCtxSetCurrent";

#[derive(Debug, Deserialize)]
struct Recording {
    calls: Vec<RecordedCall>,
    facts: Vec<RecordedFact>,
}

#[derive(Debug, Deserialize)]
struct RecordedCall {
    call: String,
    config: String,
    ns: Nanos,
    waits: bool,
    beside_ns: Option<Nanos>,
}

#[derive(Debug, Deserialize)]
struct RecordedFact {
    fact: String,
    value: Option<f64>,
}

/// The cost of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Nanoseconds of the calling thread.
    pub(crate) ns: Nanos,
    /// Nanoseconds for which the call has the context's lock.
    pub(crate) holds: Nanos,
    /// True if it returns only once the whole device is idle.
    pub(crate) waits: bool,
}

/// A measured call of a certain size.
#[derive(Debug)]
struct Row {
    label: String,
    bytes: u64,
    cost: Cost,
}

/// Facts of the device that its model uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    /// Nanoseconds between two kernels of a stream.
    pub(crate) gap: Nanos,
    /// Nanoseconds between two kernels with a timing event between them.
    pub(crate) timed_gap: Nanos,
    /// Nanoseconds from the end of a launch until an idle device begins it.
    pub(crate) start: Nanos,
    /// Bytes a nanosecond of pinned copies to the device.
    pub(crate) inwards: f64,
    /// Bytes a nanosecond of pinned copies to the host.
    pub(crate) outwards: f64,
    /// Bytes a nanosecond of both together.
    pub(crate) both: f64,
    /// Bytes a nanosecond of copies and fills on the device. It is assumed.
    pub(crate) within: f64,
}

/// All costs and facts.
#[derive(Debug)]
pub(crate) struct Costs {
    rows: BTreeMap<String, Vec<Row>>,
    pub(crate) rates: Rates,
    /// Bytes of device memory that a context takes.
    pub(crate) context_bytes: u64,
}

/// Divides a row's description into its label and its size: "pinned, 64 KiB".
fn divided(config: &str) -> (String, u64) {
    let (label, size) = config.rsplit_once(", ").unwrap_or(("", config));
    let bytes = size.split_once(' ').and_then(|(number, unit)| {
        let unit = match unit {
            "KiB" => 1_u64 << 10,
            "MiB" => 1 << 20,
            _ => return None,
        };
        number.parse::<u64>().ok().map(|number| number * unit)
    });
    match bytes {
        Some(bytes) => (label.to_owned(), bytes),
        None => (config.to_owned(), 0),
    }
}

/// The value at a size: on the line through the two nearest points, and at least a tenth of the smallest
/// point's. One point is the value of every size.
fn between(points: &[(u64, Nanos)], bytes: u64) -> Nanos {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return 0;
    };
    if points.len() == 1 {
        return first.1;
    }
    let above = points.iter().position(|(at, _)| *at >= bytes);
    let above = above.unwrap_or(points.len() - 1).max(1);
    let ((a, from), (b, to)) = match points.get(above - 1..=above) {
        Some([low, high]) => (*low, *high),
        _ => (*first, *last),
    };
    let steps = i128::from(b) - i128::from(a);
    let along = (i128::from(to) - i128::from(from)) * (i128::from(bytes) - i128::from(a));
    let value = i128::from(from) + along / steps.max(1);
    Nanos::try_from(value).unwrap_or(0).max(first.1 / 10)
}

impl Costs {
    /// Reads the recording.
    pub(crate) fn recorded() -> Self {
        let recording: Recording = serde_json::from_str(RECORDED).expect("a recording");
        let fact = |name: &str| {
            let found = recording.facts.iter().find(|it| it.fact == name);
            found.and_then(|it| it.value).expect("a recorded fact")
        };
        let ns = |name: &str| (fact(name) * 1_000.0) as Nanos;
        // The launch of a thread beside an idle one: what a launch beside a call lasts longer, the call held.
        let idle = fact("launch of a second thread, the first idle") as Nanos;
        let mut rows = BTreeMap::<String, Vec<Row>>::new();
        for call in &recording.calls {
            let (label, bytes) = divided(&call.config);
            let beside = call.beside_ns.map(|ns| ns.saturating_sub(idle));
            let cost = Cost {
                ns: call.ns,
                holds: beside.unwrap_or(call.ns).min(call.ns),
                waits: call.waits,
            };
            let row = Row { label, bytes, cost };
            rows.entry(call.call.clone()).or_default().push(row);
        }
        let own = |call: &str| rows[call][0].cost.ns;
        let waited = ns("wait, alone");
        let known = own("cuLaunchKernel") + own("cuStreamSynchronize") + EMPTY;
        let rates = Rates {
            gap: ns("gap between kernels"),
            timed_gap: ns("gap between kernels with a timing event"),
            start: waited.saturating_sub(known),
            inwards: fact("pinned copy to the device"),
            outwards: fact("pinned copy to the host"),
            both: fact("pinned copies both ways at once, in all"),
            within: 2_000.0,
        };
        let context_bytes = (fact("memory of a context") * f64::from(1 << 20)) as u64;
        Self {
            rows,
            rates,
            context_bytes,
        }
    }

    /// Returns the cost of a call; its label and its size choose among the rows of its function.
    pub(crate) fn of(&self, call: &str, label: &str, bytes: u64) -> Cost {
        let like = LIKE.iter().find(|(it, _)| *it == call);
        let measured = like.map_or(call, |(_, like)| *like);
        let rows = self.rows.get(measured).or_else(|| self.rows.get(TRIFLE));
        let Some(rows) = rows else {
            return Cost {
                ns: 0,
                holds: 0,
                waits: false,
            };
        };
        let labelled = rows.iter().any(|row| row.label == label);
        let rows = rows.iter().filter(|row| !labelled || row.label == label);
        let rows: Vec<&Row> = rows.collect();
        let points = |value: fn(&Cost) -> Nanos| -> Vec<(u64, Nanos)> {
            let points = rows.iter().map(|row| (row.bytes, value(&row.cost)));
            points.collect()
        };
        let ns = between(&points(|cost| cost.ns), bytes);
        let cost = Cost {
            ns,
            holds: between(&points(|cost| cost.holds), bytes).min(ns),
            waits: rows.iter().any(|row| row.cost.waits),
        };
        match (call, label) {
            // The text is compiled here. It was not measured if this waits or holds the lock.
            ("cuLinkAddData_v2", _) => Cost {
                holds: 0,
                waits: false,
                ..cost
            },
            ("cuModuleLoadData", "linked") => Cost {
                ns: LINKED_LOAD,
                holds: LINKED_LOAD,
                ..cost
            },
            _ => cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_row_is_the_cost_of_its_call() {
        let costs = Costs::recorded();
        let launch = costs.of("cuLaunchKernel", "", 0);
        assert_eq!((launch.ns, launch.waits), (4_376, false));
        assert_eq!(launch.holds, 5_551 - 3_717);
        assert_eq!(costs.of("cuLaunchKernelEx", "", 0), launch);
        let load = costs.of("cuModuleLoadData", "", 0);
        assert!(load.waits && load.ns == 11_513_903, "{load:?}");
        assert_eq!(costs.of("cuEventRecord", "timing", 0).ns, 1_175);
        assert_eq!(costs.of("cuEventRecord", "no timing", 0).ns, 308);
        // A call that holds no lock as far as launches beside it show.
        assert!(costs.of("cuMemSetAccess", "", 2 << 20).holds < 1_000);
    }

    #[test]
    fn every_function_has_a_measured_cost() {
        let costs = Costs::recorded();
        for function in crate::journal::FUNCTIONS {
            let like = LIKE.iter().find(|(it, _)| *it == function);
            let measured = like.map_or(function, |(_, like)| *like);
            assert!(costs.rows.contains_key(measured), "{function}");
        }
    }

    #[test]
    fn sizes_between_two_rows_lie_on_a_line() {
        assert_eq!(between(&[(10, 100), (20, 300)], 15), 200);
        assert_eq!(between(&[(10, 100), (20, 300)], 30), 500);
        assert_eq!(
            between(&[(10, 100), (20, 300)], 0),
            10,
            "no less than a tenth"
        );
        assert_eq!(between(&[(10, 100), (20, 300), (40, 300)], 40), 300);
        assert_eq!(between(&[(10, 100)], 1_000), 100);
        let costs = Costs::recorded();
        let mib = costs.of("cuMemHostAlloc", "", 1 << 20);
        assert_eq!(mib.ns, 1_137_752);
        let two = costs.of("cuMemHostAlloc", "", 2 << 20);
        assert!(two.ns > mib.ns && two.ns < 2 * mib.ns, "{two:?}");
    }

    #[test]
    fn rows_are_told_apart_by_label_and_size() {
        assert_eq!(divided("pinned, 64 KiB"), ("pinned".to_owned(), 64 << 10));
        assert_eq!(divided("256 MiB"), (String::new(), 256 << 20));
        assert_eq!(
            divided("PTX, 1 function"),
            ("PTX, 1 function".to_owned(), 0)
        );
        let costs = Costs::recorded();
        let pinned = costs.of("cuMemcpyHtoDAsync_v2", "pinned", 64 << 10);
        assert_eq!(pinned.ns, 2_094);
        assert!(costs.rates.start > 1_000, "{:?}", costs.rates);
    }
}
