//! Devices, errors, versions, entry points.

use std::ffi::{CStr, c_char};

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_DEVICE, INVALID_VALUE, NOT_FOUND, SUCCESS};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};

const DEVICES: &str = "Device Management";
const ERRORS: &str = "Error Handling";
const ENTRY: &str = "Driver Entry Point Access";

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let device = |function| (function, DEVICES);
    let mut checks = vec![
        Check::new(
            ("cuInit", "Initialization"),
            "a second call succeeds",
            |it| it.ok("cuInit", words![0u32]),
        ),
        Check::new(
            ("cuDriverGetVersion", "Version Management"),
            "the version is 1000 times the major and 10 times the minor",
            version,
        ),
        Check::new(
            ("cuDriverGetVersion", "Version Management"),
            "it answers before cuInit",
            version,
        )
        .alone(),
        Check::new(device("cuDeviceGetCount"), "there is a device", |it| {
            let count = int(it, "cuDeviceGetCount")?;
            ensure!(count >= 1, "{count} devices");
            Ok(())
        }),
        Check::new(
            device("cuDeviceGet"),
            "the first number behind the last is no device",
            |it| {
                let count = int(it, "cuDeviceGetCount")?;
                let mut device = 0i32;
                it.expect(INVALID_DEVICE, "cuDeviceGet", words![&mut device, count])
            },
        ),
        Check::new(
            device("cuDeviceGetName"),
            "a name ends with zero and is cut to the room",
            name,
        ),
        Check::new(
            device("cuDeviceGetUuid"),
            "two calls give one id, which is not zero",
            uuid,
        ),
        Check::new(
            device("cuDeviceTotalMem"),
            "there is at least as much memory as is free",
            total,
        ),
        Check::new(
            device("cuDeviceGetPCIBusId"),
            "the id names its device",
            bus_id,
        ),
        Check::new(
            device("cuDeviceGetPCIBusId"),
            "room for less than the id is refused",
            |it| {
                let mut text = [0u8; 4];
                it.expect(
                    INVALID_VALUE,
                    "cuDeviceGetPCIBusId",
                    words![&mut text, 4i32, 0i32],
                )
            },
        ),
        Check::new(
            device("cuDeviceGetByPCIBusId"),
            "an id of another function is no device",
            |it| {
                let mut text = [0u8; 32];
                it.ok("cuDeviceGetPCIBusId", words![&mut text, 32i32, 0i32])?;
                let end = text.iter().position(|it| *it == 0).unwrap_or(31);
                text[end - 1] = b'7';
                let mut device = 0i32;
                it.expect_one_of(
                    &[INVALID_DEVICE, INVALID_VALUE],
                    "cuDeviceGetByPCIBusId",
                    words![&mut device, &text],
                )
            },
        ),
        Check::new(
            device("cuDeviceGetByPCIBusId"),
            "an id of another domain is no device",
            |it| {
                let mut device = 0i32;
                it.expect_one_of(
                    &[INVALID_DEVICE, INVALID_VALUE],
                    "cuDeviceGetByPCIBusId",
                    words![&mut device, c"7fff:ff:1f.7"],
                )
            },
        ),
        Check::new(
            device("cuDeviceGetByPCIBusId"),
            "a text that is no id is refused",
            |it| {
                let mut device = 0i32;
                it.expect_one_of(
                    &[INVALID_VALUE, INVALID_DEVICE],
                    "cuDeviceGetByPCIBusId",
                    words![&mut device, c"no bus"],
                )
            },
        ),
        Check::new(
            (
                "cuDeviceComputeCapability",
                "Device Management [DEPRECATED]",
            ),
            "it gives what attributes 75 and 76 give",
            capability,
        ),
        Check::new(
            ("cuDeviceCanAccessPeer", "Peer Context Memory Access"),
            "a device is no peer of itself",
            |it| {
                let mut can = 9i32;
                it.ok("cuDeviceCanAccessPeer", words![&mut can, 0i32, 0i32])?;
                ensure!(can == 0, "it can access itself: {can}");
                Ok(())
            },
        ),
        Check::new(
            ("cuDeviceGetP2PAttribute", "Peer Context Memory Access"),
            "a device with itself is an invalid device",
            |it| {
                let mut value = 0i32;
                it.expect(
                    INVALID_DEVICE,
                    "cuDeviceGetP2PAttribute",
                    words![&mut value, 1i32, 0i32, 0i32],
                )
            },
        ),
    ];
    checks.extend(attributes());
    checks.extend(errors());
    checks.extend(entry_points());
    checks
}

fn int(bench: &Bench, symbol: &str) -> Result<i32, Finding> {
    let mut value = 0i32;
    bench.ok(symbol, words![&mut value])?;
    Ok(value)
}

fn version(bench: &Bench) -> Outcome {
    let version = int(bench, "cuDriverGetVersion")?;
    ensure!(
        version >= 3020 && version % 10 == 0,
        "the version is {version}"
    );
    Ok(())
}

fn name(bench: &Bench) -> Outcome {
    let (mut whole, mut cut) = ([0xffu8; 256], [0xffu8; 4]);
    bench.ok("cuDeviceGetName", words![&mut whole, 256i32, 0i32])?;
    let end = whole.iter().position(|it| *it == 0);
    ensure!(end.is_some_and(|it| it > 0), "no name, or no end of it");
    bench.ok("cuDeviceGetName", words![&mut cut, 4i32, 0i32])?;
    ensure!(
        cut[3] == 0 || cut.contains(&0),
        "a name that is cut has no end: {cut:?}"
    );
    ensure!(cut[..2] == whole[..2], "a name that is cut is another");
    Ok(())
}

fn uuid(bench: &Bench) -> Outcome {
    let (mut one, mut other) = ([0u8; 16], [0u8; 16]);
    bench.ok("cuDeviceGetUuid", words![&mut one, 0i32])?;
    bench.ok("cuDeviceGetUuid_v2", words![&mut other, 0i32])?;
    ensure!(one == other && one != [0; 16], "{one:x?} and {other:x?}");
    Ok(())
}

fn total(bench: &Bench) -> Outcome {
    let (mut total, mut free, mut all) = (0usize, 0usize, 0usize);
    bench.ok("cuDeviceTotalMem_v2", words![&mut total, 0i32])?;
    bench.ok("cuMemGetInfo_v2", words![&mut free, &mut all])?;
    ensure!(
        free <= all && all <= total,
        "free {free}, of {all}, of a device of {total}"
    );
    Ok(())
}

fn bus_id(bench: &Bench) -> Outcome {
    let mut text = [0u8; 32];
    bench.ok("cuDeviceGetPCIBusId", words![&mut text, 32i32, 0i32])?;
    let mut device = 9i32;
    bench.ok("cuDeviceGetByPCIBusId", words![&mut device, &text])?;
    ensure!(device == 0, "the id of device 0 is that of {device}");
    Ok(())
}

fn capability(bench: &Bench) -> Outcome {
    let (mut major, mut minor) = (0i32, 0i32);
    bench.ok(
        "cuDeviceComputeCapability",
        words![&mut major, &mut minor, 0i32],
    )?;
    let told = (bench.attribute(75)?, bench.attribute(76)?);
    ensure!(
        told == (major, minor),
        "{major}.{minor}, and attributes {told:?}"
    );
    Ok(())
}

/// Checks of attributes and of their relations.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn attributes() -> Vec<Check> {
    let of = ("cuDeviceGetAttribute", DEVICES);
    let at_least = |number: i32, what: &'static str, least: i32| {
        Check::new(of, format!("{what} is at least {least}"), move |it| {
            let value = it.attribute(number)?;
            ensure!(value >= least, "attribute {number} is {value}");
            Ok(())
        })
    };
    let bounded = |(small, large): (i32, i32), claim: &'static str| {
        Check::new(of, claim, move |it| {
            let values = (it.attribute(small)?, it.attribute(large)?);
            ensure!(
                values.0 <= values.1,
                "attributes {small} and {large} are {values:?}"
            );
            Ok(())
        })
    };
    vec![
        at_least(1, "threads per block", 1024),
        at_least(2, "a block's x", 1024),
        at_least(3, "a block's y", 1024),
        at_least(4, "a block's z", 64),
        at_least(5, "a grid's x", i32::MAX),
        at_least(6, "a grid's y", 65_535),
        at_least(7, "a grid's z", 65_535),
        at_least(8, "shared memory per block", 48 << 10),
        at_least(9, "constant memory", 64 << 10),
        at_least(12, "registers per block", 32 << 10),
        at_least(16, "multiprocessors", 1),
        at_least(39, "threads per multiprocessor", 1024),
        at_least(106, "blocks per multiprocessor", 1),
        at_least(126, "domains of memory synchronisation", 1),
        bounded(
            (8, 97),
            "shared memory per block is at most what a kernel may opt in to",
        ),
        bounded(
            (97, 81),
            "what a kernel may opt in to is at most a multiprocessor's",
        ),
        bounded(
            (12, 82),
            "registers per block are at most a multiprocessor's",
        ),
        bounded((1, 39), "threads per block are at most a multiprocessor's"),
        Check::new(of, "a warp has 32 threads", |it| {
            let value = it.attribute(10)?;
            ensure!(value == 32, "{value}");
            Ok(())
        }),
        Check::new(of, "unified addressing is there on 64 bits", |it| {
            let value = it.attribute(41)?;
            ensure!(value == 1, "attribute 41 is {value}");
            Ok(())
        }),
        Check::new(of, "number 0 is no attribute", |it| {
            let mut value = 0i32;
            it.expect(
                INVALID_VALUE,
                "cuDeviceGetAttribute",
                words![&mut value, 0i32, 0i32],
            )
        }),
        Check::new(of, "a number beyond the last is no attribute", |it| {
            let mut value = 0i32;
            it.expect(
                INVALID_VALUE,
                "cuDeviceGetAttribute",
                words![&mut value, 100_000i32, 0i32],
            )
        }),
        Check::new(of, "a negative number is no attribute", |it| {
            let mut value = 0i32;
            it.expect(
                INVALID_VALUE,
                "cuDeviceGetAttribute",
                words![&mut value, -1i32, 0i32],
            )
        }),
    ]
}

fn text_of(bench: &Bench, symbol: &str, error: i32) -> Result<Option<String>, Finding> {
    let mut at: *const c_char = std::ptr::dangling();
    let seen = bench.code(symbol, words![error, &mut at])?;
    match seen.0 {
        SUCCESS if at.is_null() => Err(Finding(format!("{symbol} succeeded and gave null"))),
        SUCCESS => Ok(Some(bench.text(at))),
        INVALID_VALUE if at.is_null() => Ok(None),
        INVALID_VALUE => Err(Finding(
            "an unknown code is refused and the answer is not null".into(),
        )),
        _ => Err(Finding(format!("{symbol} gave {seen}"))),
    }
}

fn errors() -> Vec<Check> {
    let mut checks = Vec::new();
    for (code, name) in [
        (0, "CUDA_SUCCESS"),
        (1, "CUDA_ERROR_INVALID_VALUE"),
        (2, "CUDA_ERROR_OUT_OF_MEMORY"),
        (201, "CUDA_ERROR_INVALID_CONTEXT"),
        (400, "CUDA_ERROR_INVALID_HANDLE"),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
        (999, "CUDA_ERROR_UNKNOWN"),
    ] {
        let claim = format!("{code} is {name}");
        checks.push(Check::new(("cuGetErrorName", ERRORS), claim, move |it| {
            let seen = text_of(it, "cuGetErrorName", code)?;
            ensure!(seen.as_deref() == Some(name), "it is {seen:?}");
            Ok(())
        }));
    }
    for symbol in ["cuGetErrorName", "cuGetErrorString"] {
        for code in [-1, 9, 12_345] {
            let claim = format!("{code} is no code: refused, and the answer is null");
            checks.push(Check::new((symbol, ERRORS), claim, move |it| {
                let seen = text_of(it, symbol, code)?;
                ensure!(seen.is_none(), "it is {seen:?}");
                Ok(())
            }));
        }
    }
    checks.push(Check::new(
        ("cuGetErrorString", ERRORS),
        "each code with a name has a text",
        |it| {
            for code in 0..1000 {
                let name = text_of(it, "cuGetErrorName", code)?;
                let text = text_of(it, "cuGetErrorString", code)?;
                ensure!(
                    name.is_some() == text.is_some(),
                    "{code}: {name:?}, {text:?}"
                );
            }
            Ok(())
        },
    ));
    checks
}

/// Answers of `cuGetProcAddress_v2`: code, address, status.
fn entry(bench: &Bench, name: &CStr, version: i32, flags: u64) -> Result<(i32, u64, i32), Finding> {
    let (mut at, mut status) = (0u64, -1i32);
    let seen = bench.code(
        "cuGetProcAddress_v2",
        words![name, &mut at, version, flags, &mut status],
    )?;
    Ok((seen.0, at, status))
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
fn entry_points() -> Vec<Check> {
    let of = ("cuGetProcAddress", ENTRY);
    vec![
        Check::new(of, "a known name is found", |it| {
            let (code, at, status) = entry(it, c"cuMemAlloc", 12_000, 0)?;
            ensure!(
                code == SUCCESS && at != 0 && status == 0,
                "{code}, address {at:#x}, status {status}"
            );
            Ok(())
        }),
        Check::new(
            of,
            "an unknown name succeeds with null and status 1",
            |it| {
                let (code, at, status) = entry(it, c"cuNoSuchFunction", 12_000, 0)?;
                ensure!(
                    code == SUCCESS && at == 0 && status == 1,
                    "{code}, address {at:#x}, status {status}"
                );
                Ok(())
            },
        ),
        Check::new(
            of,
            "an older version without the function succeeds with null and status 2",
            |it| {
                let (code, at, status) = entry(it, c"cuGraphCreate", 3020, 0)?;
                ensure!(
                    code == SUCCESS && at == 0 && status == 2,
                    "{code}, address {at:#x}, status {status}"
                );
                Ok(())
            },
        )
        .uncertain(),
        Check::new(
            of,
            "the first form refuses an unknown name with NOT_FOUND",
            |it| {
                let mut at = 1u64;
                it.expect(
                    NOT_FOUND,
                    "cuGetProcAddress",
                    words![c"cuNoSuchFunction", &mut at, 12_000i32, 0u64],
                )
            },
        )
        .uncertain(),
        Check::new(of, "a version above the driver's is refused", |it| {
            let version = int(it, "cuDriverGetVersion")?;
            let (code, ..) = entry(it, c"cuInit", version + 100_000, 0)?;
            ensure!(code == INVALID_VALUE, "{code}");
            Ok(())
        })
        .uncertain(),
        Check::new(
            of,
            "a version decides which form of a function is given",
            |it| {
                let (_, old, _) = entry(it, c"cuCtxGetDevice", 12_000, 0)?;
                let (_, new, _) = entry(it, c"cuStreamGetCaptureInfo", 10_010, 0)?;
                let (_, newer, _) = entry(it, c"cuStreamGetCaptureInfo", 11_030, 0)?;
                ensure!(
                    old != 0 && new != newer && newer != 0,
                    "{old:#x}, {new:#x}, {newer:#x}"
                );
                Ok(())
            },
        ),
        Check::new(
            of,
            "the flag of the thread's default stream gives another form",
            |it| {
                let (_, legacy, _) = entry(it, c"cuLaunchKernel", 12_000, 1)?;
                let (_, thread, _) = entry(it, c"cuLaunchKernel", 12_000, 2)?;
                ensure!(
                    legacy != 0 && thread != 0 && legacy != thread,
                    "{legacy:#x}, {thread:#x}"
                );
                Ok(())
            },
        ),
        Check::new(of, "a name with a version's suffix is not found", |it| {
            let (code, at, _) = entry(it, c"cuMemAlloc_v2", 12_000, 0)?;
            ensure!(code == SUCCESS && at == 0, "{code}, address {at:#x}");
            Ok(())
        })
        .uncertain(),
        Check::new(of, "the status is optional", |it| {
            let mut at = 0u64;
            it.ok(
                "cuGetProcAddress_v2",
                words![c"cuInit", &mut at, 12_000i32, 0u64, Word::NULL],
            )?;
            ensure!(at != 0, "null");
            Ok(())
        }),
    ]
}
