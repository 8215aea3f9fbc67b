//! CUDA's own variables that control how images are loaded and how launches are waited for.

use std::sync::OnceLock;

/// True if images are loaded when they are given, by CUDA's variable for that.
pub(crate) fn is_eager() -> bool {
    static EAGER: OnceLock<bool> = OnceLock::new();
    *EAGER.get_or_init(|| {
        let mode = std::env::var_os("CUDA_MODULE_LOADING");
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("eager"))
    })
}

/// True if each launch is waited for, by CUDA's variable for that.
#[inline]
pub(crate) fn is_blocking() -> bool {
    static BLOCKING: OnceLock<bool> = OnceLock::new();
    *BLOCKING.get_or_init(|| std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|it| it == "1"))
}
