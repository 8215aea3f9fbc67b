//! Calls: how many there were, which are to fail or to be slow, and what each took.

use crate::Nanos;

/// The functions that the library exports, beside the tests' own.
pub(crate) const FUNCTIONS: [&str; 58] = [
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuFuncGetAttribute",
    "cuFuncGetParamInfo",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuInit",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuLinkCreate_v2",
    "cuLinkDestroy",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemFreeHost",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemMap",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamWriteValue32_v2",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeTiled",
];

/// Index of a function, by its name.
pub(crate) fn index(name: &str) -> Option<usize> {
    FUNCTIONS.iter().position(|it| *it == name)
}

/// One call, as the log has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoggedCall {
    /// Index of its function.
    pub function: u32,
    /// Its answer.
    pub code: u32,
    /// Virtual time of its begin.
    pub began: Nanos,
    /// Virtual time that it took.
    pub took: Nanos,
    /// Virtual time of that for which it waited for the device.
    pub waited: Nanos,
    /// Number of streams with work when it began, beside its own.
    pub others: u32,
    /// Bytes that it moves or allocates, at most 4 GiB; 0 for other calls.
    pub bytes: u32,
}

/// A failure to come.
#[derive(Debug, Clone, Copy)]
struct Planned {
    function: usize,
    /// Number of calls until it comes; 1 is the next.
    after: u64,
    code: u32,
    sticky: bool,
}

/// Counts, plans and delays.
#[derive(Debug)]
pub(crate) struct Journal {
    counts: Vec<u64>,
    took: Vec<Nanos>,
    slow: Vec<Nanos>,
    planned: Vec<Planned>,
}

impl Default for Journal {
    fn default() -> Self {
        let none = || vec![0; FUNCTIONS.len()];
        Self {
            counts: none(),
            took: none(),
            slow: none(),
            planned: Vec::new(),
        }
    }
}

impl Journal {
    /// Counts a call; returns its planned failure, if there is one: the code, and true if it is sticky.
    pub(crate) fn enter(&mut self, function: usize) -> Option<(u32, bool)> {
        if let Some(count) = self.counts.get_mut(function) {
            *count += 1;
        }
        let mine = self.planned.iter_mut().filter(|it| it.function == function);
        mine.for_each(|it| it.after -= 1);
        let due = self.planned.iter().position(|it| it.after == 0)?;
        let planned = self.planned.remove(due);
        Some((planned.code, planned.sticky))
    }

    pub(crate) fn leave(&mut self, function: usize, took: Nanos) {
        if let Some(all) = self.took.get_mut(function) {
            *all += took;
        }
    }

    pub(crate) fn count(&self, function: usize) -> u64 {
        self.counts.get(function).copied().unwrap_or(0)
    }

    /// Virtual time of all calls of a function.
    pub(crate) fn took(&self, function: usize) -> Nanos {
        self.took.get(function).copied().unwrap_or(0)
    }

    /// Time that each call of a function takes beside its own.
    pub(crate) fn slow(&self, function: usize) -> Nanos {
        self.slow.get(function).copied().unwrap_or(0)
    }

    pub(crate) fn make_slow(&mut self, function: usize, ns: Nanos) {
        if let Some(slow) = self.slow.get_mut(function) {
            *slow = ns;
        }
    }

    /// Plans a failure of the `nth` call of a function from now on; 1 is the next.
    pub(crate) fn plan(&mut self, function: usize, nth: u64, code: u32, sticky: bool) {
        self.planned.push(Planned {
            function,
            after: nth.max(1),
            code,
            sticky,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_found() {
        assert!(FUNCTIONS.is_sorted());
        assert_eq!(
            FUNCTIONS.get(index("cuInit").expect("it is there")),
            Some(&"cuInit")
        );
        assert_eq!(index("cuNothing"), None);
    }

    #[test]
    fn a_failure_comes_once_at_its_call() {
        let mut journal = Journal::default();
        journal.plan(3, 2, 999, true);
        journal.plan(3, 3, 2, false);
        assert_eq!(journal.enter(4), None);
        let seen = [(); 4].map(|()| journal.enter(3));
        assert_eq!(seen, [None, Some((999, true)), Some((2, false)), None]);
        assert_eq!(
            (journal.count(3), journal.count(4), journal.count(5)),
            (4, 1, 0)
        );
    }

    #[test]
    fn times_add_up() {
        let mut journal = Journal::default();
        journal.leave(3, 20);
        journal.leave(3, 5);
        journal.make_slow(3, 7);
        assert_eq!(
            (journal.took(3), journal.slow(3), journal.slow(4)),
            (25, 7, 0)
        );
    }
}
