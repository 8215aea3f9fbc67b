//! One function of the driver API.

use crate::role::ParameterRole;

/// The state that a function needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// None: the function answers before `cuInit`.
    Any,
    /// The driver must be initialised; else the call is `CUDA_ERROR_NOT_INITIALIZED`.
    Initialised,
    /// A context must be current to the thread; else the call is `CUDA_ERROR_INVALID_CONTEXT`.
    Context,
}

/// Effect of stream captures on a function that names no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuringCapture {
    /// No capture forbids it.
    Allowed,
    /// It may wait for work, or free resources that work uses. A capture forbids it depending on
    /// the modes of capture and thread, and is then invalidated
    /// (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`).
    Unsafe,
    /// It is unsafe, and works on the legacy stream. During the capture of a stream that the legacy
    /// one waits for, it is `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`, whatever the modes are.
    OnLegacy,
}

/// A parameter of a function.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in the manual.
    pub name: &'static str,
    /// The arguments that it takes.
    pub role: ParameterRole,
}

/// A function of the driver API in one of its versions.
#[derive(Debug, Clone, Copy)]
pub struct DriverFunction {
    /// The symbol of the version.
    pub symbol: &'static str,
    /// The section of the manual that describes it.
    pub section: &'static str,
    /// The state that it needs.
    pub state: State,
    /// Effect of stream captures on it.
    pub capture: DuringCapture,
    /// Its parameters in order.
    pub parameters: &'static [Parameter],
}

impl DriverFunction {
    /// The code by which arguments that are invalid in every state of the program are refused, or
    /// 0. The first wrong parameter decides.
    ///
    /// `words` are the arguments in order, each as the C interface passes it, sign-extended to 64
    /// bits.
    #[must_use]
    #[inline]
    pub const fn refusal(&self, words: &[u64]) -> i32 {
        let mut at = 0;
        while at < self.parameters.len() && at < words.len() {
            let code = self.parameters[at].role.refusal(words[at]);
            if code != 0 {
                return code;
            }
            at += 1;
        }
        0
    }

    /// Says whether it refuses any argument at all by its role.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        let mut at = 0;
        while at < self.parameters.len() {
            if self.parameters[at].role.refuses() {
                return true;
            }
            at += 1;
        }
        false
    }

    /// The function's name without the suffix of a version.
    #[must_use]
    pub fn base(&self) -> &'static str {
        match self.symbol.rsplit_once("_v") {
            Some((base, version)) if version.bytes().all(|it| it.is_ascii_digit()) => base,
            _ => self.symbol,
        }
    }
}
