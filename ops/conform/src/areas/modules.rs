//! Modules, libraries, the linker, variables.

use std::ffi::{CString, c_char};

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{
    FILE_NOT_FOUND, INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, UNSUPPORTED_PTX_VERSION,
};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};
use crate::kernels;

const MODULES: &str = "Module Management";
const LIBRARIES: &str = "Library Management";

/// The host reads a managed variable of a library, writes it, and reads the value that a kernel
/// made of it.
fn managed(bench: &Bench, library: u64) -> Outcome {
    let (mut at, mut bytes) = (0u64, 0usize);
    bench.ok(
        "cuLibraryGetManaged",
        words![&mut at, &mut bytes, library, c"both"],
    )?;
    let before = bench.get_host::<u32>(at, 1);
    bench.set_host(at, &[41u32]);
    bench.launch(bench.kernel(c"increment")?, 1, 1, &[at, 1])?;
    bench.sync()?;
    let after = bench.get_host::<u32>(at, 1);
    ensure!(
        (bytes, before[0], after[0]) == (4, 5, 42),
        "{bytes} bytes, {}, then {}",
        before[0],
        after[0]
    );
    Ok(())
}

fn loaded(bench: &Bench, image: &str, codes: &[i32]) -> Outcome {
    let image = CString::new(image).map_err(|it| Finding(it.to_string()))?;
    let mut module = 0u64;
    bench.expect_one_of(
        codes,
        "cuModuleLoadData",
        words![&mut module, image.as_c_str()],
    )
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, MODULES);
    let refused = |claim: &'static str, image: &'static str, codes: &'static [i32]| {
        Check::new(of("cuModuleLoadData"), claim, move |it| {
            loaded(it, image, codes)
        })
    };
    let mut checks = vec![
        refused(
            "a text that is no PTX is an invalid image",
            "this is no image at all",
            &[INVALID_IMAGE],
        ),
        refused("an empty text is an invalid image", "", &[INVALID_IMAGE]),
        refused(
            "PTX with an error is invalid PTX",
            ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry broken() { nonsense.u32 %r0; ret; }\n",
            &[INVALID_PTX],
        ),
        refused(
            "PTX of a version that there is not yet is an unsupported version",
            ".version 99.0\n.target sm_52\n.address_size 64\n.visible .entry nothing() { ret; }\n",
            &[UNSUPPORTED_PTX_VERSION],
        ),
        Check::new(
            of("cuModuleLoad"),
            "a file that is not there is not found",
            |it| {
                let mut module = 0u64;
                it.expect(
                    FILE_NOT_FOUND,
                    "cuModuleLoad",
                    words![&mut module, c"/nonexistent/module.ptx"],
                )
            },
        ),
        Check::new(of("cuModuleLoad"), "a file of PTX is loaded", |it| {
            let (_file, path) = kernels::file()?;
            let module = it.made("cuModuleLoad", words![path.as_c_str()]);
            it.ok("cuModuleUnload", words![module?])
        }),
        Check::new(
            of("cuModuleLoadDataEx"),
            "an error of the assembler is told in the log",
            log,
        ),
        Check::new(
            of("cuModuleGetFunction"),
            "a kernel that there is not is not found",
            |it| {
                let mut function = 0u64;
                it.expect(
                    NOT_FOUND,
                    "cuModuleGetFunction",
                    words![&mut function, it.module()?, c"missing"],
                )
            },
        ),
        Check::new(
            of("cuModuleGetFunction"),
            "an empty name is not found",
            |it| {
                let mut function = 0u64;
                it.expect_one_of(
                    &[NOT_FOUND, INVALID_VALUE],
                    "cuModuleGetFunction",
                    words![&mut function, it.module()?, c""],
                )
            },
        ),
        Check::new(of("cuModuleGetFunction"), "a variable is no kernel", |it| {
            let mut function = 0u64;
            it.expect(
                NOT_FOUND,
                "cuModuleGetFunction",
                words![&mut function, it.module()?, c"counter"],
            )
        }),
        Check::new(
            of("cuModuleGetGlobal"),
            "a variable has its size and its first value",
            |it| {
                let (at, bytes) = variable(it, c"counter")?;
                let seen = it.read::<u32>(at, 1)?;
                ensure!(bytes == 4 && seen == [7], "{bytes} bytes, {seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuModuleGetGlobal"),
            "a constant variable has its size",
            |it| {
                let (_, bytes) = variable(it, c"table")?;
                ensure!(bytes == 16, "{bytes}");
                Ok(())
            },
        ),
        Check::new(
            of("cuModuleGetGlobal"),
            "kernels read what the host writes to variables",
            variables,
        ),
        Check::new(
            of("cuModuleGetGlobal"),
            "a variable that there is not is not found",
            |it| {
                let mut at = 0u64;
                it.expect(
                    NOT_FOUND,
                    "cuModuleGetGlobal_v2",
                    words![&mut at, Word::NULL, it.module()?, c"missing"],
                )
            },
        ),
        Check::new(
            of("cuModuleGetGlobal"),
            "neither place for an answer is refused",
            |it| {
                it.expect(
                    INVALID_VALUE,
                    "cuModuleGetGlobal_v2",
                    words![Word::NULL, Word::NULL, it.module()?, c"counter"],
                )
            },
        )
        .uncertain(),
        Check::new(
            of("cuModuleGetGlobal"),
            "two modules of one image have variables of their own",
            |it| {
                let other = it.fresh_module()?;
                let (one, mut two) = (variable(it, c"counter")?.0, 0u64);
                let seen = it.ok(
                    "cuModuleGetGlobal_v2",
                    words![&mut two, Word::NULL, other, c"counter"],
                );
                it.ok("cuModuleUnload", words![other])?;
                seen?;
                ensure!(one != two, "both lie at {one:#x}");
                Ok(())
            },
        ),
        Check::new(
            of("cuModuleGetFunctionCount"),
            "kernels are counted and listed",
            |it| {
                let (module, mut count) = (it.module()?, 0u32);
                it.ok("cuModuleGetFunctionCount", words![&mut count, module])?;
                let mut all = vec![0u64; count as usize];
                it.ok(
                    "cuModuleEnumerateFunctions",
                    words![all.as_mut_slice(), count, module],
                )?;
                ensure!(
                    count == 6 && all.iter().all(|it| *it != 0),
                    "{count}: {all:x?}"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuModuleGetLoadingMode"),
            "the mode is eager or lazy",
            |it| {
                let mut mode = 0i32;
                it.ok("cuModuleGetLoadingMode", words![&mut mode])?;
                ensure!(mode == 1 || mode == 2, "{mode}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLinkComplete"),
            "PTX that was added becomes an image with its kernels",
            linked,
        ),
    ];
    checks.extend(libraries());
    checks
}

fn variable(bench: &Bench, name: &std::ffi::CStr) -> Result<(u64, usize), Finding> {
    let (mut at, mut bytes) = (0u64, 0usize);
    bench.ok(
        "cuModuleGetGlobal_v2",
        words![&mut at, &mut bytes, bench.module()?, name],
    )?;
    Ok((at, bytes))
}

fn variables(bench: &Bench) -> Outcome {
    let module = bench.fresh_module()?;
    let seen = (|| {
        let (mut counter, mut table) = (0u64, 0u64);
        bench.ok(
            "cuModuleGetGlobal_v2",
            words![&mut counter, Word::NULL, module, c"counter"],
        )?;
        bench.ok(
            "cuModuleGetGlobal_v2",
            words![&mut table, Word::NULL, module, c"table"],
        )?;
        let kernel = bench.made("cuModuleGetFunction", words![module, c"variables"])?;
        let to = bench.alloc(64)?;
        bench.launch(kernel, 1, 1, &[to])?;
        let before = bench.read::<u32>(to, 2)?;
        bench.write(counter, &[1234u32])?;
        bench.write(table + 4, &[1000u32])?;
        bench.launch(kernel, 1, 1, &[to])?;
        Ok((before, bench.read::<u32>(to, 2)?))
    })();
    bench.ok("cuModuleUnload", words![module])?;
    let (before, after): (Vec<u32>, Vec<u32>) = seen?;
    ensure!(
        before == [7, 100] && after == [1234, 1080],
        "{before:?}, then {after:?}"
    );
    Ok(())
}

fn log(bench: &Bench) -> Outcome {
    let image = c".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry broken() { nonsense.u32 %r0; ret; }\n";
    let mut text = [0u8; 1024];
    // Options for the error log and its size.
    let options = [5i32, 6];
    let values = [std::ptr::from_mut(&mut text).expose_provenance(), 1024];
    let mut module = 0u64;
    bench.expect(
        INVALID_PTX,
        "cuModuleLoadDataEx",
        words![&mut module, image, 2u32, &options, &values],
    )?;
    let end = text.iter().position(|it| *it == 0);
    ensure!(end.is_some_and(|it| it > 0), "the log is empty");
    Ok(())
}

fn linked(bench: &Bench) -> Outcome {
    let mut link = 0u64;
    bench.ok(
        "cuLinkCreate_v2",
        words![0u32, Word::NULL, Word::NULL, &mut link],
    )?;
    let image = CString::new(kernels::PTX).map_err(|it| Finding(it.to_string()))?;
    let size = image.as_bytes_with_nul().len();
    let null = Word::NULL;
    bench.ok(
        "cuLinkAddData_v2",
        words![
            link,
            1i32,
            image.as_c_str(),
            size,
            c"kernels",
            0u32,
            null,
            null
        ],
    )?;
    let (mut made, mut bytes) = (0u64, 0usize);
    bench.ok("cuLinkComplete", words![link, &mut made, &mut bytes])?;
    let module = bench.made("cuModuleLoadData", words![made])?;
    bench.ok("cuLinkDestroy", words![link])?;
    let found = bench.made("cuModuleGetFunction", words![module, c"fill"]);
    bench.ok("cuModuleUnload", words![module])?;
    ensure!(found? != 0 && bytes > 0, "{bytes} bytes");
    Ok(())
}

fn library(bench: &Bench) -> Result<u64, Finding> {
    let image = CString::new(kernels::PTX).map_err(|it| Finding(it.to_string()))?;
    let null = Word::NULL;
    bench.made(
        "cuLibraryLoadData",
        words![image.as_c_str(), null, null, 0u32, null, null, 0u32],
    )
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
fn libraries() -> Vec<Check> {
    let of = |function| (function, LIBRARIES);
    vec![
        Check::new(
            of("cuLibraryLoadData"),
            "a kernel of a library runs as a function",
            |it| {
                let library = library(it)?;
                let kernel = it.made("cuLibraryGetKernel", words![library, c"fill"])?;
                let function = it.made("cuKernelGetFunction", words![kernel])?;
                let to = it.alloc(64)?;
                it.launch(function, 1, 16, &[to, 9, 16])?;
                let seen = it.read::<u32>(to, 16)?;
                it.ok("cuLibraryUnload", words![library])?;
                ensure!(seen == [9; 16], "{seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLibraryGetKernel"),
            "a kernel that there is not is not found",
            |it| {
                let library = library(it)?;
                let mut kernel = 0u64;
                let seen = it.expect(
                    NOT_FOUND,
                    "cuLibraryGetKernel",
                    words![&mut kernel, library, c"missing"],
                );
                it.ok("cuLibraryUnload", words![library])?;
                seen
            },
        ),
        Check::new(
            of("cuLibraryGetManaged"),
            "a plain variable is not found as a managed one",
            |it| {
                let library = library(it)?;
                let mut at = 0u64;
                let seen = it.expect(
                    NOT_FOUND,
                    "cuLibraryGetManaged",
                    words![&mut at, Word::NULL, library, c"counter"],
                );
                it.ok("cuLibraryUnload", words![library])?;
                seen
            },
        ),
        Check::new(
            of("cuLibraryGetManaged"),
            "host and device see the same variable",
            |it| {
                let library = library(it)?;
                let seen = managed(it, library);
                it.ok("cuLibraryUnload", words![library])?;
                seen
            },
        ),
        Check::new(of("cuLibraryGetKernelCount"), "kernels are counted", |it| {
            let library = library(it)?;
            let mut count = 0u32;
            let seen = it.ok("cuLibraryGetKernelCount", words![&mut count, library]);
            it.ok("cuLibraryUnload", words![library])?;
            seen?;
            ensure!(count == 6, "{count}");
            Ok(())
        }),
        Check::new(of("cuKernelGetName"), "a kernel's name is its name", |it| {
            let library = library(it)?;
            let kernel = it.made("cuLibraryGetKernel", words![library, c"increment"])?;
            let mut name: *const c_char = std::ptr::null();
            it.ok("cuKernelGetName", words![&mut name, kernel])?;
            let seen = it.text(name);
            it.ok("cuLibraryUnload", words![library])?;
            ensure!(seen == "increment", "{seen}");
            Ok(())
        }),
        Check::new(
            of("cuKernelGetParamInfo"),
            "parameters have their offsets and sizes",
            |it| {
                let library = library(it)?;
                let kernel = it.made("cuLibraryGetKernel", words![library, c"bounded"])?;
                let mut seen = Vec::new();
                for index in 0..3usize {
                    let (mut offset, mut size) = (99usize, 99usize);
                    it.ok(
                        "cuKernelGetParamInfo",
                        words![kernel, index, &mut offset, &mut size],
                    )?;
                    seen.push((offset, size));
                }
                let mut beyond = 0usize;
                let end = it.expect(
                    INVALID_VALUE,
                    "cuKernelGetParamInfo",
                    words![kernel, 3usize, &mut beyond, Word::NULL],
                );
                it.ok("cuLibraryUnload", words![library])?;
                end?;
                ensure!(seen == [(0, 8), (8, 4), (16, 8)], "{seen:?}");
                Ok(())
            },
        ),
    ]
}
