//! The drop-in `libcuda.so.1`, which is `libnvidia-ml.so.1` too: where it lies, the folder that programs
//! find it in, and the variables that lead them there.

mod command;
mod elf;
mod jit_link;
mod smi;
mod variable;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use bus_schemas::{ModuleHash, Tenant};

pub use smi::SMI;
pub use variable::EnvVariable;
use variable::{joined, set};

/// The library as it is built.
const LIBRARY: &str = "libwarploom_cuda.so";
/// Names the folder in a program's environment; our own roles go by it to leave no trace there.
const FOLDER: &str = "WARPLOOM_DROP_IN";
/// What a program under `warploom run` writes its sessions to.
pub const SESSIONS: &str = "WARPLOOM_SESSIONS";
/// The folder of the empty nvJitLinks, apart from the others: programs for GPUs must not find them by name.
const JIT_FOLDER: &str = "jit-link";
/// Versions of nvJitLink that programs look for.
const JIT_LINKS: [&str; 2] = ["libnvJitLink.so.12", "libnvJitLink.so.13"];
/// Functions of nvJitLink that programs look for among all that is loaded.
const JIT_LINK_FUNCTIONS: [&str; 16] = [
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
/// The package that brings JAX's part for CUDA.
const JAX: &str = "jax_plugins";
/// The library's names: that of the driver, with and without version, and of NVIDIA's management library.
const NAMES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"];
/// Where a folder has what JAX takes for a toolkit.
const TOOLKIT: &str = "toolkit";
/// XLA's flag against trying kernels: on a processor that takes minutes, and says nothing of a GPU. What
/// the program's user sets stands behind it, and so decides.
const AT_ONCE: &str = "--xla_gpu_autotune_level=0";
/// What Numba and cuda.core say of the empty nvJitLink: it is not old, and nothing is to be upgraded.
const QUIET: &str = "ignore:libnvJitLink.so* is too old:RuntimeWarning";
/// Takes PTX for machine code: what Triton is told to assemble with.
const ASSEMBLER: &str = "#!/bin/sh
# Called as ptxas by Triton and JAX: hands the PTX on as it is.
out= ; in=
while [ $# -gt 0 ]; do
    case $1 in
    --version) echo 'Cuda compilation tools, release 13.0, V13.0.0'; exit 0 ;;
    -o) out=$2; shift ;;
    --output-file=*) out=${1#--output-file=} ;;
    -*) ;;
    *.ptx) in=$1 ;;
    *) [ -n \"$in\" ] || [ ! -f \"$1\" ] || in=$1 ;;
    esac
    shift
done
# XLA gives the driver what comes out without a zero byte behind it, by which text ends.
{ cat \"$in\" && printf '\\0'; } >\"$out\"
";

/// Finds the library: where the setting says, beside this program, or where an installation has it.
///
/// # Errors
/// With the places looked at.
pub fn library(setting: Option<&str>) -> Result<PathBuf> {
    if let Some(path) = setting {
        return Ok(path.into());
    }
    let program = std::env::current_exe().context("finding this program's own binary")?;
    let here = program.parent().unwrap_or(Path::new("."));
    // A test's binary lies in `deps` itself.
    let places = ["", "deps", "..", "../lib/warploom", "../lib"];
    let places = places.map(|place| here.join(place).join(LIBRARY));
    // A build may have left an older one where it puts whole packages.
    let built = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
    match places
        .iter()
        .filter(|path| path.is_file())
        .max_by_key(|path| built(path))
    {
        Some(path) => Ok(path.clone()),
        None => {
            let list: Vec<_> = places
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            bail!(
                "E-RUN-LIBRARY: {LIBRARY} is at none of {}; build it with `cargo build --release \
                   -p libcuda`, or set run.library",
                list.join(", ")
            )
        }
    }
}

/// Makes the folder of a library below `base`, if it is not there yet: named by content, so that
/// a program keeps the one it began with.
///
/// # Errors
/// When something cannot be read or written.
pub fn folder(base: &Path, library: &Path) -> Result<PathBuf> {
    let bytes = fs::read(library).with_context(|| format!("reading {}", library.display()))?;
    let empty = JIT_LINKS.map(|name| (name, elf::empty_library(name, &JIT_LINK_FUNCTIONS)));
    let named = [&bytes[..], &empty[0].1, &empty[1].1, JIT_FOLDER.as_bytes()].concat();
    let name: String = ModuleHash::of(&named)
        .to_string()
        .chars()
        .take(16)
        .collect();
    let folder = base.join("drop-in").join(name);
    if folder.is_dir() {
        smi::link(&folder)?;
        return Ok(folder);
    }
    let failed = |path: &Path| format!("writing {}", path.display());
    let partial = folder.with_extension(format!("{}", std::process::id()));
    fs::create_dir_all(&partial).with_context(|| failed(&partial))?;
    let [first, others @ ..] = NAMES.map(|name| partial.join(name));
    fs::write(&first, &bytes).with_context(|| failed(&first))?;
    // One inode: two files would be two libraries with a state each.
    for other in others {
        fs::hard_link(&first, &other).with_context(|| failed(&other))?;
    }
    smi::link(&partial)?;
    let links = partial.join(JIT_FOLDER);
    fs::create_dir_all(&links).with_context(|| failed(&links))?;
    for (name, library) in empty {
        let path = links.join(name);
        fs::write(&path, library).with_context(|| failed(&path))?;
    }
    let tools = partial.join(TOOLKIT).join("bin");
    fs::create_dir_all(&tools).with_context(|| failed(&tools))?;
    for assembler in [partial.join("ptxas"), tools.join("ptxas")] {
        fs::write(&assembler, ASSEMBLER).with_context(|| failed(&assembler))?;
        fs::set_permissions(&assembler, fs::Permissions::from_mode(0o755))?;
    }
    // Somebody else may have been faster; theirs is the same.
    if fs::rename(&partial, &folder).is_err() {
        fs::remove_dir_all(&partial).with_context(|| failed(&partial))?;
    }
    Ok(folder)
}

/// Devices that a program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Devices {
    /// How many.
    pub count: u32,
    /// All of them are GPUs: libraries send machine code, as they do where a GPU is.
    pub gpus: bool,
}

/// What leads a program to the folder and the folder's library to the cluster; `present` is the
/// environment so far, and the command tells where the program's own libraries may be.
#[must_use]
pub fn variables(
    folder: &Path,
    credentials: &Path,
    tenant: &Tenant,
    devices: Devices,
    command: &[PathBuf],
    present: impl Fn(&str) -> Option<OsString>,
) -> Vec<EnvVariable> {
    let programs = command::programs(command, &present);
    let has_jax = !devices.gpus && jit_link::has_package(JAX, &programs, &present);
    let mut variables = vec![library_path(folder, &present)];
    variables.extend(smi::path(folder, &present));
    if !devices.gpus {
        variables.push(jit_links(folder, &programs, &present));
        variables.extend(compilers(folder, &present));
    }
    variables.push(set(
        "TRITON_LIBCUDA_PATH",
        folder,
        "Triton links this libcuda",
    ));
    variables.extend([
        set(
            "WARPLOOM_BROKER_CREDENTIALS",
            credentials,
            "where the cluster is",
        ),
        set("WARPLOOM_TENANT", tenant.as_str(), "who the program is"),
        set(
            "WARPLOOM_DEVICES",
            devices.count.to_string(),
            "how many devices it sees",
        ),
        set(FOLDER, folder, "our own roles leave all this alone"),
    ]);
    if has_jax {
        variables.extend(jax(folder, &present));
    }
    variables
}

/// Entries ahead of those that a list has already.
fn ahead(
    name: &'static str,
    entries: Vec<PathBuf>,
    present: &impl Fn(&str) -> Option<OsString>,
    why: &'static str,
) -> EnvVariable {
    let entries = entries.into_iter().map(PathBuf::into_os_string);
    set(name, joined(entries.chain(present(name)), ":"), why)
}

/// Where the loader finds libraries, ahead of where it looks already.
fn library_path(folder: &Path, present: &impl Fn(&str) -> Option<OsString>) -> EnvVariable {
    let why = "programs find libcuda and libnvidia-ml there";
    ahead("LD_LIBRARY_PATH", vec![folder.to_owned()], present, why)
}

/// What is loaded in place of nvJitLink, which would make machine code.
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

/// What has libraries that compile for GPUs send PTX.
fn compilers(folder: &Path, present: &impl Fn(&str) -> Option<OsString>) -> [EnvVariable; 3] {
    // The last one that fits decides.
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

/// The same of JAX.
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

/// Takes what [`variables`] sets out of the environment of a role of ours: a worker must not find
/// the drop-in where its driver should be.
pub fn clear(command: &mut Command) {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    for name in ["LD_LIBRARY_PATH", "LD_PRELOAD", "PATH"] {
        let Some(value) = std::env::var_os(name) else {
            continue;
        };
        let left = without(&value, Path::new(&folder));
        match left.is_empty() {
            true => command.env_remove(name),
            false => command.env(name, left),
        };
    }
    for name in [
        "WARPLOOM_BROKER_CREDENTIALS",
        "WARPLOOM_TENANT",
        "WARPLOOM_DEVICES",
        FOLDER,
        SESSIONS,
    ] {
        command.env_remove(name);
    }
}

/// A list of paths without those in a folder.
fn without(list: &OsStr, folder: &Path) -> OsString {
    let kept: Vec<_> = std::env::split_paths(list)
        .filter(|path| !path.starts_with(folder) && !path.as_os_str().is_empty())
        .collect();
    std::env::join_paths(kept).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU worker.
    const ONE: Devices = Devices {
        count: 1,
        gpus: false,
    };

    #[test]
    fn a_folder_is_made_once_and_holds_one_library() {
        use std::os::unix::fs::MetadataExt;
        let base = test_cluster::TempDir::new().expect("a folder");
        let library = base.path().join("some.so");
        fs::write(&library, "code").expect("written");
        let made = folder(base.path(), &library).expect("made");
        assert_eq!(folder(base.path(), &library).expect("there"), made);
        let inode = |name: &str| fs::metadata(made.join(name)).expect("there").ino();
        assert_eq!(inode("libcuda.so"), inode("libcuda.so.1"));
        assert_eq!(inode("libnvidia-ml.so.1"), inode("libcuda.so.1"));
        for name in JIT_LINKS {
            assert!(!made.join(name).exists(), "{name} beside libcuda");
            assert!(made.join(JIT_FOLDER).join(name).is_file(), "{name}");
        }
        let own = std::env::current_exe().expect("this test");
        assert_eq!(
            fs::read_link(made.join("bin/nvidia-smi")).expect("there"),
            own
        );
        fs::write(&library, "other code").expect("written");
        assert_ne!(folder(base.path(), &library).expect("made"), made);
    }

    #[test]
    fn paths_are_added_ahead_and_taken_out_again() {
        let tenant = "research".parse().expect("a name");
        let present = |name: &str| (name == "LD_LIBRARY_PATH").then(|| "/a:/b".into());
        let set = variables("/f/x".as_ref(), "/c".as_ref(), &tenant, ONE, &[], present);
        let path = &set
            .iter()
            .find(|it| it.name == "LD_LIBRARY_PATH")
            .expect("set")
            .value;
        assert_eq!(path, "/f/x:/a:/b");
        assert_eq!(without(path, "/f/x".as_ref()), "/a:/b");
        let preload = &set
            .iter()
            .find(|it| it.name == "LD_PRELOAD")
            .expect("set")
            .value;
        let left = without(preload, "/f/x".as_ref());
        assert!(!left.to_string_lossy().contains("/f/x"), "{left:?}");
    }

    #[test]
    fn a_program_for_gpus_compiles_as_it_would_beside_one() {
        let tenant = "research".parse().expect("a name");
        let names = |gpus| {
            let devices = Devices { count: 2, gpus };
            let set = variables(
                "/f/x".as_ref(),
                "/c".as_ref(),
                &tenant,
                devices,
                &[],
                |_| None,
            );
            set.iter().map(|it| it.name).collect::<Vec<_>>()
        };
        let forced = [
            "LD_PRELOAD",
            "PYTHONWARNINGS",
            "CUPY_COMPILE_WITH_PTX",
            "TRITON_PTXAS_PATH",
        ];
        let (on_cpus, on_gpus) = (names(false), names(true));
        for name in forced {
            assert!(on_cpus.contains(&name), "{name}");
            assert!(!on_gpus.contains(&name), "{name}");
        }
        for name in [
            "LD_LIBRARY_PATH",
            "WARPLOOM_TENANT",
            "WARPLOOM_DEVICES",
            "TRITON_LIBCUDA_PATH",
        ] {
            assert!(on_gpus.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_python_with_jax_finds_the_assembler() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let library = base.path().join("some.so");
        fs::write(&library, "code").expect("written");
        let made = folder(base.path(), &library).expect("made");
        let tenant = "research".parse().expect("a name");
        let python = base.path().join("environment/bin/python");
        fs::create_dir_all(python.parent().expect("a parent")).expect("made");
        fs::write(&python, "").expect("written");
        let told = |name: &str| {
            let present = |name: &str| (name == "XLA_FLAGS").then(|| "--own".into());
            // Behind a program that starts it, too.
            let command = ["env".into(), python.clone()];
            let set = variables(&made, "/c".as_ref(), &tenant, ONE, &command, present);
            let found = set.into_iter().find(|it| it.name == name);
            found.map(|it| it.value.to_string_lossy().into_owned())
        };
        let here = made.display().to_string();
        // The machine may have JAX for everybody.
        if !jit_link::has_package(JAX, &[], &|_: &str| None) {
            assert_eq!(told("CUDA_ROOT"), None);
        }
        let packages = "environment/lib/python3.11/site-packages/jax_plugins";
        fs::create_dir_all(base.path().join(packages)).expect("made");
        assert_eq!(told("CUDA_ROOT"), Some(format!("{here}/toolkit")));
        let flags = "--xla_gpu_autotune_level=0 --own";
        assert_eq!(told("XLA_FLAGS"), Some(flags.into()));
        assert!(made.join("toolkit/bin/ptxas").is_file());
    }

    #[test]
    fn the_assembler_copies() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let library = base.path().join("some.so");
        fs::write(&library, "code").expect("written");
        let made = folder(base.path(), &library).expect("made");
        // Triton names its file, XLA does not.
        for name in ["k.ptx", "tempfile-1"] {
            let (from, to) = (base.path().join(name), base.path().join("k.cubin"));
            fs::write(&from, name).expect("written");
            let mut command = Command::new(made.join("ptxas"));
            let options = ["-lineinfo", "-v", "--opt-level", "0", "--gpu-name=sm_80"];
            command.args(options).arg(&from).arg("-o").arg(&to);
            assert!(command.status().expect("it runs").success());
            assert_eq!(
                fs::read(to).expect("written"),
                format!("{name}\0").as_bytes()
            );
        }
    }
}
