//! A tenant's program: what the demo and the benchmarks drive.

use crate::Gpu;

/// Why a request could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error + Send + Sync + 'static> {
    /// The device refused an op or is gone.
    #[error("{workload}: {error}")]
    Device {
        /// Whose request it was.
        workload: &'static str,
        /// What the device said.
        error: E,
    },
    /// [`Workload::prepare`] was not called, or failed.
    #[error("{0} was not prepared on a device")]
    NotPrepared(&'static str),
}

impl<E: std::error::Error + Send + Sync + 'static> Error<E> {
    /// What a device says, as the error of this workload's request.
    pub(crate) fn of(workload: &'static str) -> impl Fn(E) -> Self + Copy {
        move |error| Self::Device { workload, error }
    }
}

/// Whether a result equals the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// True if every value does.
    pub verified: bool,
    /// The first difference, where there is one.
    pub detail: Option<String>,
}

impl Verification {
    /// The result of a comparison: nothing found means verified.
    pub(crate) fn from_difference(detail: Option<String>) -> Self {
        Self {
            verified: detail.is_none(),
            detail,
        }
    }
}

/// What came of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOutcome {
    /// Kernel launches it took.
    pub launches: u64,
    /// True if the whole result equals the reference.
    pub verified: bool,
    /// The first difference, where there is one.
    pub detail: Option<String>,
}

/// A tenant's program: it prepares a device once, then serves requests, one after
/// the other.
pub trait Workload<G: Gpu>: Send {
    /// One of [`NAMES`](crate::NAMES).
    fn name(&self) -> &'static str;

    /// Loads modules, allocates, and copies weights. Again on another device, the
    /// workload starts over there.
    ///
    /// # Errors
    /// The device refused an op or is gone.
    fn prepare(&mut self, gpu: &mut G) -> Result<(), Error<G::Error>>;

    /// Runs the next request until its result is on the host; returns its number
    /// of launches. What a tenant waits for is this call.
    ///
    /// # Errors
    /// The device refused an op or is gone; or nothing was prepared.
    fn run(&mut self, gpu: &mut G) -> Result<u64, Error<G::Error>>;

    /// Compares the result of the last [`run`](Workload::run) with the reference,
    /// in full, on the host only. Call it once after each run.
    fn verify(&mut self) -> Verification;

    /// [`run`](Workload::run) and [`verify`](Workload::verify) in one.
    ///
    /// # Errors
    /// As [`run`](Workload::run).
    fn request(&mut self, gpu: &mut G) -> Result<RequestOutcome, Error<G::Error>> {
        let launches = self.run(gpu)?;
        let Verification { verified, detail } = self.verify();
        Ok(RequestOutcome {
            launches,
            verified,
            detail,
        })
    }
}
