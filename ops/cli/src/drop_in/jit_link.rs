//! The host's own nvJitLink, for the libraries that are linked with it.
//!
//! Numba and cuda.core look up nvJitLink by its name and look into it; they find the empty one and
//! send PTX. Libraries such as cuSPARSE require it by name and need its symbols, in any loaded
//! library. So the real one is loaded behind the empty one, by its path.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::command::is_python;

/// The folder of all drop-ins, below the state folder of whatever user or build.
pub(super) const DROP_INS: &str = "drop-in";
/// Folders of nvJitLink in Python packages, below `site-packages`.
const PACKAGES: [&str; 3] = ["nvjitlink/lib", "cu13/lib", "cu12/lib"];
/// Folders of nvJitLink in toolkits, below the toolkit's own.
const TOOLKIT: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];
/// System folders of libraries.
const SYSTEM: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// The library of this name that a program would find in its environment, other than the one in
/// `folder`.
pub(super) fn find(
    name: &str,
    folder: &Path,
    programs: &[PathBuf],
    present: &impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let places = places(programs, present).into_iter();
    let paths = places.map(|place| place.join(name));
    let mut real = paths.filter(|path| !path.starts_with(folder) && path.is_file());
    // A stub of another version of this program is also empty.
    real.find(|path| !path.components().any(|part| part.as_os_str() == DROP_INS))
}

/// True if a program's Python has this package.
pub(super) fn has_package(
    package: &str,
    programs: &[PathBuf],
    present: &impl Fn(&str) -> Option<OsString>,
) -> bool {
    let prefixes = prefixes(programs, present).into_iter();
    let mut folders = prefixes.flat_map(|prefix| packages(&prefix));
    folders.any(|folder| folder.join(package).is_dir())
}

/// The path in a variable that names a file or a folder.
fn path(name: &str, present: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = present(name).filter(|it| !it.is_empty());
    value.map(PathBuf::from)
}

/// The paths in a variable that names several.
fn list(name: &str, present: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let list = present(name);
    list.map_or_else(Vec::new, |it| std::env::split_paths(&it).collect())
}

/// Prefixes in which a program's Python and its packages may be installed; first those of the
/// Pythons that it names.
fn prefixes(programs: &[PathBuf], present: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let (pythons, others): (Vec<_>, Vec<_>) = programs.iter().partition(|it| is_python(it));
    let mut prefixes: Vec<_> = pythons.into_iter().flat_map(|it| around(it)).collect();
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter();
    prefixes.extend(environments.filter_map(|it| path(it, present)));
    prefixes.extend(others.into_iter().flat_map(|it| around(it)));
    prefixes.extend(path("HOME", present).map(|home| home.join(".local")));
    prefixes.push("/usr/local".into());
    prefixes
}

/// The package folders of the Pythons below a prefix.
fn packages(prefix: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let pythons = pythons(&prefix.join("lib")).into_iter();
    pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|it| python.join(it)))
}

fn places(programs: &[PathBuf], present: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut places = list("LD_LIBRARY_PATH", present);
    for prefix in prefixes(programs, present) {
        places.push(prefix.join("lib"));
        for packages in packages(&prefix) {
            places.extend(PACKAGES.map(|package| packages.join("nvidia").join(package)));
        }
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter();
    let toolkits = toolkits.filter_map(|it| path(it, present));
    for toolkit in toolkits.chain([PathBuf::from("/usr/local/cuda")]) {
        places.extend(TOOLKIT.map(|below| toolkit.join(below)));
    }
    places.extend(SYSTEM.map(PathBuf::from));
    places
}

/// The folders that a program is installed in: that of its path, and that of its link's target.
fn around(program: &Path) -> Vec<PathBuf> {
    let real = program.canonicalize().ok();
    let both = [Some(program.to_owned()), real].into_iter().flatten();
    both.filter_map(|it| it.parent().and_then(Path::parent).map(Path::to_owned))
        .collect()
}

/// Folders of Python versions in a folder of libraries, the newest first.
fn pythons(lib: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(lib).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_python = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("python3")
    };
    let mut found: Vec<_> = paths.filter(is_python).collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::{ProgramDevices, folder, variables};

    const NAME: &str = "libnvJitLink.so.12";

    fn compile(dir: &std::path::Path, output: &str, source: &str, arguments: &[&str]) {
        let file = dir.join(format!("{output}.c"));
        std::fs::write(&file, source).expect("written");
        let mut command = Command::new("cc");
        command.current_dir(dir).arg("-o").arg(output).arg(&file);
        let status = command.args(arguments).status().expect("a C compiler");
        assert!(status.success(), "{output}");
    }

    /// Builds a stand-in for nvJitLink, and a library that is linked with it by version, as
    /// cuSPARSE is. A program loads that library, then looks up nvJitLink by its name and among all
    /// loaded libraries, as Numba does.
    #[test]
    fn who_is_linked_with_nvjitlink_has_the_real_one_and_who_looks_for_it_has_not() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let dir = base.path().join("toolkit");
        std::fs::create_dir(&dir).expect("made");
        let script = format!(
            "{NAME} {{ global: __nvJitLinkGetErrorLogSize_12_9; nvJitLinkVersion; local: *; }};"
        );
        std::fs::write(dir.join("versions"), script).expect("written");
        let real = "int __nvJitLinkGetErrorLogSize_12_9(void) { return 42; }\n\
                    int nvJitLinkVersion(void) { return 0; }\n";
        let soname = format!("-Wl,-soname,{NAME}");
        let arguments = ["-shared", "-fPIC", &soname, "-Wl,--version-script=versions"];
        compile(&dir, NAME, real, &arguments);
        let user = "int __nvJitLinkGetErrorLogSize_12_9(void);\n\
                    int sparse(void) { return __nvJitLinkGetErrorLogSize_12_9(); }\n";
        let real = dir.join(NAME);
        let real = real.to_str().expect("text");
        compile(&dir, "libuser.so", user, &["-shared", "-fPIC", real]);
        let program = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n\
            int main(int count, char **names) {\n\
                void *user = dlopen(names[1], RTLD_NOW);\n\
                if (!user) { puts(dlerror()); return 1; }\n\
                int (*sparse)(void) = (int (*)(void))dlsym(user, \"sparse\");\n\
                if (!sparse || sparse() != 42) { puts(\"not the real one\"); return 2; }\n\
                void *link = dlopen(\"libnvJitLink.so.12\", RTLD_NOW | RTLD_NOLOAD);\n\
                if (!link) { puts(\"not loaded\"); return 3; }\n\
                if (dlsym(link, \"nvJitLinkVersion\")) { puts(\"not empty\"); return 4; }\n\
                if (dlsym(RTLD_DEFAULT, \"nvJitLinkVersion\")) { puts(\"seen\"); return 5; }\n\
                return 0;\n\
            }\n";
        compile(&dir, "program", program, &["-ldl"]);
        let library = base.path().join("some.so");
        std::fs::write(&library, "code").expect("written");
        let made = folder(base.path(), &library).expect("made");
        let tenant = "research".parse().expect("a name");
        let present =
            |name: &str| (name == "LD_LIBRARY_PATH").then(|| dir.clone().into_os_string());
        let mut command = Command::new(dir.join("program"));
        command.arg(dir.join("libuser.so"));
        let devices = ProgramDevices::unknown(1);
        for it in variables(&made, "/c".as_ref(), &tenant, devices, &[], present) {
            command.env(it.name, it.value);
        }
        let output = command.output().expect("it runs");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        assert_eq!(err, "", "the loader is content");
    }
}
