//! The drop-in `libcuda.so.1`, which is also `libnvidia-ml.so.1`: its location, the folder in which
//! programs find it, and the variables that lead them there.

mod command;
mod devices;
mod elf;
mod forced;
mod jit_link;
mod smi;
mod variable;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use admin::errors::ErrorCode;
use anyhow::{Context, Result, bail};
use bus_schemas::{ModuleHash, Tenant};
use nvml::GPU_DRIVER;

pub use devices::ProgramDevices;
use forced::{JIT_FOLDER, JIT_LINK_FUNCTIONS, JIT_LINKS, TOOLKIT};
use jit_link::DROP_INS;
pub use smi::SMI;
pub use variable::EnvVariable;
use variable::{ahead, set};

/// File name of the built library.
const LIBRARY: &str = "libwarploom_cuda.so";
/// The variable that names the folder in a program's environment; our own roles use it to remove
/// the drop-in from theirs.
const FOLDER: &str = "WARPLOOM_DROP_IN";
/// The variable with the file to which a program under `warploom run` writes its sessions.
pub const SESSIONS: &str = "WARPLOOM_SESSIONS";
/// The library's names: that of the driver, with and without version, and that of NVIDIA's
/// management library.
const NAMES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"];
/// An assembler for Triton that passes PTX on as machine code.
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

/// Finds the library: at the configured path, beside this program, or in an installation.
///
/// # Errors
/// An error with the searched places.
pub fn library(setting: Option<&str>) -> Result<PathBuf> {
    if let Some(path) = setting {
        return Ok(path.into());
    }
    let program = std::env::current_exe().context("finding this program's own binary")?;
    let here = program.parent().unwrap_or(Path::new("."));
    // A test's binary lies in `deps` itself.
    let places = ["", "deps", "..", "../lib/warploom", "../lib"];
    let places = places.map(|place| here.join(place).join(LIBRARY));
    // An older library may remain in the folder where a build puts whole packages.
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
            bail!(ErrorCode::RunLibrary.failed(format!(
                "{LIBRARY} is at none of {}; build it with `cargo build --release \
                   -p libcuda`, or set run.library",
                list.join(", ")
            )))
        }
    }
}

/// Creates the folder of a library below `base`, if it does not exist. Its name is a hash of its
/// contents, so that a program keeps the one it began with.
///
/// # Errors
/// If something cannot be read or written.
pub fn folder(base: &Path, library: &Path) -> Result<PathBuf> {
    let bytes = fs::read(library).with_context(|| format!("reading {}", library.display()))?;
    let empty = JIT_LINKS.map(|name| (name, elf::empty_library(name, &JIT_LINK_FUNCTIONS)));
    let named = [&bytes[..], &empty[0].1, &empty[1].1, JIT_FOLDER.as_bytes()].concat();
    let name: String = ModuleHash::of(&named)
        .to_string()
        .chars()
        .take(16)
        .collect();
    let folder = base.join(DROP_INS).join(name);
    if folder.is_dir() {
        smi::link(&folder)?;
        return Ok(folder);
    }
    let failed = |path: &Path| format!("writing {}", path.display());
    let partial = folder.with_extension(format!("{}", std::process::id()));
    fs::create_dir_all(&partial).with_context(|| failed(&partial))?;
    let [first, others @ ..] = NAMES.map(|name| partial.join(name));
    fs::write(&first, &bytes).with_context(|| failed(&first))?;
    // One inode: two files would be two libraries, each with its own state.
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
    // Another process may have been faster; its folder is the same.
    if fs::rename(&partial, &folder).is_err() {
        fs::remove_dir_all(&partial).with_context(|| failed(&partial))?;
    }
    Ok(folder)
}

/// The variables that lead a program to the folder and the folder's library to the cluster.
/// `present` is the environment so far; `command` shows where the program's own libraries may be.
#[must_use]
pub fn variables(
    folder: &Path,
    credentials: &Path,
    tenant: &Tenant,
    devices: ProgramDevices,
    command: &[PathBuf],
    present: impl Fn(&str) -> Option<OsString>,
) -> Vec<EnvVariable> {
    let programs = command::programs(command, &present);
    let mut variables = vec![library_path(folder, &present)];
    variables.extend(smi::path(folder, &present));
    if !devices.gpus {
        variables.extend(forced::variables(folder, &programs, &present));
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
    variables.extend(gpu_driver(devices, &present));
    variables
}

/// The version of the GPUs' driver, which programs want to know before they open a session. One of
/// an outer `run` is of other devices.
fn gpu_driver(
    devices: ProgramDevices,
    present: &impl Fn(&str) -> Option<OsString>,
) -> Option<EnvVariable> {
    let version = devices
        .driver
        .map(|it| format!("{}.{}", it / 1_000, it % 1_000 / 10));
    let outer = present(GPU_DRIVER).map(|_| String::new());
    let why = "the CUDA version of the GPUs' driver";
    version.or(outer).map(|it| set(GPU_DRIVER, it, why))
}

/// The loader's search path, with the folder first.
fn library_path(folder: &Path, present: &impl Fn(&str) -> Option<OsString>) -> EnvVariable {
    let why = "programs find libcuda and libnvidia-ml there";
    ahead("LD_LIBRARY_PATH", vec![folder.to_owned()], present, why)
}

/// Removes the variables of [`variables`] from the environment of one of our roles: a worker must
/// not find the drop-in in place of its driver.
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
        GPU_DRIVER,
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
    use super::forced::JAX;
    use super::*;

    /// One device on a CPU worker.
    const ONE: ProgramDevices = ProgramDevices::unknown(1);

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
            let devices = ProgramDevices {
                gpus,
                ..ProgramDevices::unknown(2)
            };
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
    fn a_program_for_gpus_knows_the_version_of_their_driver() {
        let tenant = "research".parse().expect("a name");
        let told = |driver, outer: bool| {
            let devices = ProgramDevices { driver, ..ONE };
            let present = |name: &str| (outer && name == GPU_DRIVER).then(|| "12.4".into());
            let (folder, file) = (Path::new("/f/x"), Path::new("/c"));
            let set = variables(folder, file, &tenant, devices, &[], present).into_iter();
            let mut set = set.filter(|it| it.name == GPU_DRIVER);
            set.next().map(|it| it.value.to_string_lossy().into_owned())
        };
        assert_eq!(told(Some(12_080), false).as_deref(), Some("12.8"));
        assert_eq!(told(Some(13_000), true).as_deref(), Some("13.0"));
        assert_eq!(told(None, false), None);
        assert_eq!(told(None, true).as_deref(), Some(""), "it was of others");
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
            // The Python is also found after a program that starts it.
            let command = ["env".into(), python.clone()];
            let set = variables(&made, "/c".as_ref(), &tenant, ONE, &command, present);
            let found = set.into_iter().find(|it| it.name == name);
            found.map(|it| it.value.to_string_lossy().into_owned())
        };
        let here = made.display().to_string();
        // JAX may be installed system-wide on this machine.
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
