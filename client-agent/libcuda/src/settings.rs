//! CUDA's own variables for how images are loaded and launches waited for.

use std::sync::OnceLock;

/// Whether images are loaded when they are given: CUDA's variable for that.
pub(crate) fn is_eager() -> bool {
    static EAGER: OnceLock<bool> = OnceLock::new();
    *EAGER.get_or_init(|| {
        let mode = std::env::var_os("CUDA_MODULE_LOADING");
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("eager"))
    })
}

/// Whether each launch is waited for: CUDA's variable for that.
#[inline]
pub(crate) fn is_blocking() -> bool {
    static BLOCKING: OnceLock<bool> = OnceLock::new();
    *BLOCKING.get_or_init(|| std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|it| it == "1"))
}
