//! Output for devices, without a cluster.

use bus_schemas::{DeviceProperties, Incarnation};
use nvml::{DeviceShare, DeviceState, ProcessState, Viewer};

use super::fields::{Format, check, device_lines, process_lines};
use super::view::{Shown, all, chosen, cuda_version, of_program};
use super::{query, summary};

const GIB: u64 = 1 << 30;

fn process(host: &str, pid: u32) -> ProcessState {
    ProcessState {
        host: host.into(),
        pid,
        name: "tr<ain>".into(),
        held: GIB / 2,
        busy_ppm: 373_000,
    }
}

fn devices() -> Vec<DeviceState> {
    let device = |gpu: u32, share, processes| DeviceState {
        gpu,
        worker: Incarnation(7),
        properties: DeviceProperties {
            kind: "cpu".into(),
            name: "Some & Other (cpu, 2 threads)".into(),
            uuid: [gpu as u8; 16],
            compute: (9, 0),
            memory: 4 * GIB,
            clock_khz: 2_000_000,
            ..DeviceProperties::default()
        },
        allowed: 2 * GIB,
        share,
        processes,
    };
    let share = DeviceShare {
        total: 2 * GIB,
        held: GIB,
        free: GIB / 2,
        busy_ppm: 373_000,
    };
    vec![
        device(11, None, vec![process("here", 5)]),
        device(
            2,
            Some(share),
            vec![process("here", 6), process("there", 7)],
        ),
    ]
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn numbers(shown: &[Shown]) -> Vec<(usize, u32, usize)> {
    let row = |it: &Shown| (it.index, it.device.gpu, it.processes.len());
    shown.iter().map(row).collect()
}

#[test]
fn all_devices_are_numbered_and_a_program_sees_its_own() {
    assert_eq!(numbers(&all(devices())), [(0, 2, 2), (1, 11, 1)]);
    let viewer = Viewer {
        host: "here".into(),
        pid: 5,
    };
    assert_eq!(numbers(&of_program(devices(), &viewer, 1)), [(0, 11, 1)]);
    let both = of_program(devices(), &viewer, 2);
    assert_eq!(numbers(&both), [(0, 11, 1), (1, 2, 1)]);
}

#[test]
fn devices_are_chosen_by_index_uuid_and_place() {
    let kept = |names: &[&str]| chosen(all(devices()), &words(names)).map(|it| numbers(&it));
    let second = vec![(1, 11, 1)];
    for name in [
        "1",
        "0000:0b:00.0",
        "00000000:0B:00.0",
        "GPU-0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b",
    ] {
        assert_eq!(kept(&[name]).expect("it is there"), second, "{name}");
    }
    assert_eq!(kept(&["1", "0"]).expect("both").len(), 2);
    let error = kept(&["7"]).expect_err("there is none").to_string();
    assert!(
        error.contains("E-USAGE") && error.contains("there are 2"),
        "{error}"
    );
}

#[test]
fn fields_are_lines_with_and_without_header_and_units() {
    let shown = all(devices());
    let asked = words(&[
        "index",
        " memory.total",
        "memory.used",
        "memory.reserved",
        "utilization.gpu",
        "fan.speed",
        "clocks.max.sm",
    ]);
    let lines = |format: &[&str]| {
        let format = Format::parse(&words(format)).expect("a format");
        device_lines(&asked, &shown, format).expect("fields")
    };
    assert_eq!(
        lines(&["csv"]),
        "index, memory.total [MiB], memory.used [MiB], memory.reserved [MiB], utilization.gpu [%], \
         fan.speed [%], clocks.max.sm [MHz]\n\
         0, 2048 MiB, 1024 MiB, 512 MiB, 37 %, [N/A], 2000 MHz\n\
         1, 2048 MiB, [N/A], [N/A], [N/A], [N/A], 2000 MHz"
    );
    let bare = lines(&["csv", "noheader", "nounits"]);
    assert_eq!(
        bare.lines().next(),
        Some("0, 2048, 1024, 512, 37, [N/A], 2000")
    );
    let format = Format::parse(&[]).expect("a format");
    let name = device_lines(&words(&["name"]), &shown, format).expect("fields");
    assert_eq!(name.lines().nth(1), Some("Some & Other (cpu; 2 threads)"));
    let asked = words(&["pid", "used_memory", "host"]);
    assert_eq!(
        process_lines(&asked, &shown, format).expect("fields"),
        "pid, used_memory [MiB], host\n6, 512 MiB, here\n7, 512 MiB, there\n5, 512 MiB, here"
    );
}

#[test]
fn a_field_that_there_is_not_is_refused_with_those_that_there_are() {
    let error = check(&words(&["index", "colour"]), &[], &[])
        .expect_err("no field")
        .to_string();
    assert!(
        error.contains("\"colour\"") && error.contains("memory.total"),
        "{error}"
    );
    let error = check(&[], &words(&["index"]), &[])
        .expect_err("no field")
        .to_string();
    assert!(error.contains("process_name"), "{error}");
    check(&[], &[], &words(&["json"])).expect_err("no format");
}

#[test]
fn tables_fit_a_hundred_columns() {
    let text = summary::tables(&"chat".parse().expect("a name"), &all(devices()));
    // The output of a test has the width of COLUMNS, or 120.
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
    assert!(text.contains("1024 MiB") && text.contains("37 %"), "{text}");
    assert_eq!(
        summary::list(&all(devices())).lines().next(),
        Some(
            "GPU 0: Some & Other (cpu, 2 threads) (UUID: GPU-02020202-0202-0202-0202-020202020202)"
        )
    );
}

#[test]
fn the_version_of_cuda_is_that_of_the_gpus_driver() {
    let mut mine = devices();
    assert_eq!(cuda_version(&all(mine.clone())), "13.0");
    mine[0].properties.kind = "cuda".into();
    mine[0].properties.driver = 12_080;
    let shown = all(mine);
    assert_eq!(cuda_version(&shown), "12.8");
    let text = summary::tables(&"chat".parse().expect("a name"), &shown);
    assert!(text.contains("CUDA 12.8"), "{text}");
    let xml = query::xml(&shown);
    assert!(xml.contains("<cuda_version>12.8</cuda_version>"), "{xml}");
}

#[test]
fn text_and_xml_say_the_same() {
    let shown = all(devices());
    let text = query::sections(&shown);
    assert!(text.contains("\nGPU 00000000:02:00.0\n"), "{text}");
    let labelled = |name: &str, value: &str| format!("{name:<50}: {value}\n");
    assert!(
        text.contains(&labelled("        Total", "2048 MiB")),
        "{text}"
    );
    assert!(text.contains(&labelled("        Gpu", "37 %")), "{text}");
    let xml = query::xml(&shown);
    for part in [
        "<gpu id=\"00000000:0b:00.0\">",
        "<product_name>Some &amp; Other (cpu, 2 threads)</product_name>",
        "<total>2048 MiB</total>",
        "<gpu_util>37 %</gpu_util>",
        "<process_name>tr&lt;ain&gt;</process_name>",
        "<attached_gpus>2</attached_gpus>",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    // Every element that begins ends, in order.
    let mut open = Vec::new();
    for tag in xml
        .split('<')
        .skip(2)
        .map(|part| part.split('>').next().unwrap_or_default())
    {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn processes_are_listed_and_idle_devices_too() {
    let mut idle = devices();
    idle[0].processes.clear();
    let text = summary::processes(&all(idle));
    let rows: Vec<Vec<_>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["0", "6", "C", "37", "-", "-", "-", "tr<ain>"]);
    assert_eq!(rows[2], ["1", "-", "-", "-", "-", "-", "-", "-"]);
}
