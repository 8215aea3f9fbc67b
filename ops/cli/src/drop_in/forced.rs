//! The settings that have programs compile to PTX, which is all that a CPU worker runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::jit_link;
use super::variable::{EnvVariable, ahead, joined, set};

/// The folder of the empty nvJitLink libraries, separate from the others: programs for GPUs must
/// not find them by name.
pub(super) const JIT_FOLDER: &str = "jit-link";
/// Versions of nvJitLink that programs look for.
pub(super) const JIT_LINKS: [&str; 2] = ["libnvJitLink.so.12", "libnvJitLink.so.13"];
/// Functions of nvJitLink that programs look up in all loaded libraries.
pub(super) const JIT_LINK_FUNCTIONS: [&str; 16] = [
    "nvJitLinkAddData",
    "nvJitLinkAddFile",
    "nvJitLinkComplete",
    "nvJitLinkCreate",
    "nvJitLinkDestroy",
    "nvJitLinkGetErrorLog",
    "nvJitLinkGetErrorLogSize",
    "nvJitLinkGetInfoLog",
    "nvJitLinkGetInfoLogSize",
    "nvJitLinkGetLinkedCubin",
    "nvJitLinkGetLinkedCubinSize",
    "nvJitLinkGetLinkedLTOIR",
    "nvJitLinkGetLinkedLTOIRSize",
    "nvJitLinkGetLinkedPtx",
    "nvJitLinkGetLinkedPtxSize",
    "nvJitLinkVersion",
];
/// The package with JAX's CUDA plugin.
pub(super) const JAX: &str = "jax_plugins";
/// Subfolder that JAX takes for a toolkit.
pub(super) const TOOLKIT: &str = "toolkit";
/// XLA's flag to skip the autotuning of kernels: on a processor that takes minutes, and tells
/// nothing about a GPU. The user's own flags follow it, and so override it.
const AT_ONCE: &str = "--xla_gpu_autotune_level=0";
/// Filter for the warning of Numba and cuda.core about the empty nvJitLink: it is not old, and no
/// upgrade is needed.
const QUIET: &str = "ignore:libnvJitLink.so* is too old:RuntimeWarning";

/// The variables for a program with a device that may be a CPU. `programs` are those in its
/// command, beside which its own libraries may be. Variables of one value are replaced: with the
/// user's, the program would send machine code, which a CPU worker refuses. Of lists, the user's part
/// is kept.
pub(super) fn variables(
    folder: &Path,
    programs: &[PathBuf],
    present: &impl Fn(&str) -> Option<OsString>,
) -> Vec<EnvVariable> {
    let mut variables = vec![jit_links(folder, programs, present)];
    variables.extend(compilers(folder, present));
    if jit_link::has_package(JAX, programs, present) {
        variables.extend(jax(folder, present));
    }
    variables
}

/// The libraries to load in place of nvJitLink, which would generate machine code.
fn jit_links(
    folder: &Path,
    programs: &[PathBuf],
    present: &impl Fn(&str) -> Option<OsString>,
) -> EnvVariable {
    let empty = JIT_LINKS
        .iter()
        .map(|name| folder.join(JIT_FOLDER).join(name));
    let real = JIT_LINKS.iter();
    let real = real.filter_map(|name| jit_link::find(name, folder, programs, present));
    let why = "an empty nvJitLink: Numba and cuda.core send PTX; behind it the real one, for what needs it";
    ahead("LD_PRELOAD", empty.chain(real).collect(), present, why)
}

/// Makes libraries that compile for GPUs send PTX.
fn compilers(folder: &Path, present: &impl Fn(&str) -> Option<OsString>) -> [EnvVariable; 3] {
    // The last filter that matches decides.
    let warnings = present("PYTHONWARNINGS").into_iter().chain([QUIET.into()]);
    let warnings = joined(warnings, ",");
    let assembler = folder.join("ptxas");
    [
        set(
            "PYTHONWARNINGS",
            warnings,
            "the empty nvJitLink is not too old",
        ),
        set("CUPY_COMPILE_WITH_PTX", "1", "CuPy sends PTX"),
        set("TRITON_PTXAS_PATH", assembler, "Triton sends PTX"),
    ]
}

/// The same for JAX.
fn jax(folder: &Path, present: &impl Fn(&str) -> Option<OsString>) -> [EnvVariable; 2] {
    let flags = [AT_ONCE.into()].into_iter().chain(present("XLA_FLAGS"));
    let (toolkit, flags) = (folder.join(TOOLKIT), joined(flags, " "));
    let why = "JAX finds a ptxas there, and so sends PTX";
    [
        set("CUDA_ROOT", toolkit, why),
        set(
            "XLA_FLAGS",
            flags,
            "XLA times no kernels to choose among them",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a variable where the user has set some.
    fn told(name: &str, users: &[(&str, &str)]) -> Option<String> {
        let present = |name: &str| {
            let mine = users.iter().find(|(its, _)| *its == name);
            mine.map(|(_, value)| OsString::from(*value))
        };
        let set = variables("/f/x".as_ref(), &[], &present).into_iter();
        let mut set = set.filter(|it| it.name == name);
        set.next().map(|it| it.value.to_string_lossy().into_owned())
    }

    #[test]
    fn one_value_is_replaced_and_of_a_list_the_users_part_is_kept() {
        let assembler = "TRITON_PTXAS_PATH";
        assert_eq!(told(assembler, &[]).as_deref(), Some("/f/x/ptxas"));
        let replaced = told(assembler, &[(assembler, "/usr/bin/ptxas")]);
        assert_eq!(replaced.as_deref(), Some("/f/x/ptxas"));
        let cupy = "CUPY_COMPILE_WITH_PTX";
        assert_eq!(told(cupy, &[(cupy, "0")]).as_deref(), Some("1"));
        let warnings = told("PYTHONWARNINGS", &[("PYTHONWARNINGS", "error")]);
        assert_eq!(warnings, Some(format!("error,{QUIET}")));
        let preload = told("LD_PRELOAD", &[("LD_PRELOAD", "/own.so")]);
        assert!(preload.is_some_and(|it| it.ends_with(":/own.so")));
    }
}
