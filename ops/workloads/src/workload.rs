//! A tenant's program, driven by the demo and the benchmarks.

use crate::Gpu;

/// Error of a request that could not run.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError<E: std::error::Error + Send + Sync + 'static> {
    /// The device refused an op or is gone.
    #[error("{workload}: {error}")]
    Device {
        /// The workload of the request.
        workload: &'static str,
        /// The device's error.
        error: E,
    },
    /// [`Workload::prepare`] was not called, or failed.
    #[error("{0} was not prepared on a device")]
    NotPrepared(&'static str),
}

impl<E: std::error::Error + Send + Sync + 'static> WorkloadError<E> {
    /// Wraps a device's error as an error of this workload's request.
    pub(crate) fn of(workload: &'static str) -> impl Fn(E) -> Self + Copy {
        move |error| Self::Device { workload, error }
    }
}

/// Result of the comparison with the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// True if every value equals the reference.
    pub verified: bool,
    /// The first difference, if any.
    pub detail: Option<String>,
}

impl Verification {
    /// The verification for a comparison: without a difference the result is verified.
    pub(crate) fn from_difference(detail: Option<String>) -> Self {
        Self {
            verified: detail.is_none(),
            detail,
        }
    }
}

/// Outcome of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOutcome {
    /// Number of kernel launches.
    pub launches: u64,
    /// True if the whole result equals the reference.
    pub verified: bool,
    /// The first difference, if any.
    pub detail: Option<String>,
}

/// A tenant's program: it prepares a device once, then serves requests one after another.
pub trait Workload<G: Gpu>: Send {
    /// One of [`NAMES`](crate::NAMES).
    fn name(&self) -> &'static str;

    /// Loads modules, allocates, and copies weights. Preparing another device restarts the workload
    /// there.
    ///
    /// # Errors
    /// If the device refused an op or is gone.
    fn prepare(&mut self, gpu: &mut G) -> Result<(), WorkloadError<G::Error>>;

    /// Runs the next request until its result is on the host; returns its number of launches. A
    /// tenant waits for this call.
    ///
    /// # Errors
    /// If the device refused an op or is gone, or the workload was not prepared.
    fn run(&mut self, gpu: &mut G) -> Result<u64, WorkloadError<G::Error>>;

    /// Compares the result of the last [`run`](Workload::run) with the reference, in full, on the
    /// host only. Call it once after each run.
    fn verify(&mut self) -> Verification;

    /// [`run`](Workload::run) and [`verify`](Workload::verify) in one.
    ///
    /// # Errors
    /// As [`run`](Workload::run).
    fn request(&mut self, gpu: &mut G) -> Result<RequestOutcome, WorkloadError<G::Error>> {
        let launches = self.run(gpu)?;
        let Verification { verified, detail } = self.verify();
        Ok(RequestOutcome {
            launches,
            verified,
            detail,
        })
    }
}
