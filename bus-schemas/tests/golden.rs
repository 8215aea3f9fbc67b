//! The bytes of every message, as `docs/reference/wire.md` describes them for other languages. A
//! difference here affects every existing client. `WARPLOOM_BLESS=1` writes the files of new
//! messages.

mod sample;

use std::path::PathBuf;

use bus_schemas::*;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.hex"))
}

/// Formats 32 bytes per line.
fn to_hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| -> String {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    };
    bytes.chunks(32).map(line).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Returns the bytes of a message from before its last field was added.
fn earlier(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/earlier");
    let text = std::fs::read_to_string(folder.join(format!("{name}.hex")));
    from_hex(&text.expect("a file of earlier bytes"))
}

fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = file(name);
    if std::env::var_os("WARPLOOM_BLESS").is_some() && !path.exists() {
        std::fs::write(&path, to_hex(bytes)).expect("written");
    }
    let text =
        std::fs::read_to_string(&path).expect("WARPLOOM_BLESS=1 makes the file of a new one");
    from_hex(&text)
}

#[test]
fn every_message_is_written_and_read_as_ever() {
    macro_rules! check {
        ($name:ident, $type:ty, $value:expr) => {{
            let name = stringify!($name);
            // A match, so that temporaries that a message borrows live as long as the message.
            match $value {
                value => {
                    let bytes = encode(&value);
                    let kept = golden(name, &bytes);
                    assert_eq!(
                        to_hex(&bytes),
                        to_hex(&kept),
                        "{name} is written differently"
                    );
                    let read: $type =
                        decode(&kept).unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert_eq!(
                        format!("{read:?}"),
                        format!("{value:?}"),
                        "{name} is read differently"
                    );
                }
            }
        }};
    }
    for_every_message!(check);
}

#[test]
fn a_newer_version_is_told_apart_from_nonsense() {
    let bytes = encode(&Hold {
        v: WIRE_VERSION + 1,
        held: true,
    });
    let newer = Err(MessageError::Newer {
        got: WIRE_VERSION + 1,
    });
    assert_eq!(decode::<Hold>(&bytes), newer);
    let bytes = encode(&ClientState {
        v: 300,
        sent: 1,
        results: 0,
    });
    assert_eq!(
        decode::<ClientState>(&bytes),
        Err(MessageError::Newer { got: 300 })
    );
    assert!(matches!(
        decode::<Hold>(b"hello"),
        Err(MessageError::Malformed(_))
    ));
    assert!(matches!(
        decode::<Hold>(b""),
        Err(MessageError::Malformed(_))
    ));
}

#[test]
fn maps_may_have_fields_that_we_do_not_know() {
    let mut bytes = encode(&sample::hold());
    // A map of two fields becomes one of three.
    assert_eq!(bytes[0], 0x82);
    bytes[0] = 0x83;
    bytes.extend(b"\xa5added\x93\x01\xc0\xa1x");
    assert_eq!(decode::<Hold>(&bytes), Ok(sample::hold()));
}

#[test]
fn a_device_need_not_be_described() {
    let (mut answer, mut beat) = (sample::open_answer(), sample::worker_beat());
    beat.properties = None;
    if let Some(opened) = &mut answer.opened {
        opened.properties = None;
    }
    for (name, bytes) in [
        ("open_answer", encode(&answer)),
        ("worker_beat", encode(&beat)),
    ] {
        assert_eq!(to_hex(&bytes), to_hex(&earlier(name)), "{name}");
    }
    assert_eq!(decode(&earlier("open_answer")), Ok(answer));
    assert_eq!(decode(&earlier("worker_beat")), Ok(beat));
}

#[test]
fn seals_of_before_name_no_closed_sessions_and_leaves_note_nothing() {
    let mut reply = sample::seal_reply();
    if let Some(answer) = &mut reply.sealed {
        answer.named.clear();
    }
    assert_eq!(to_hex(&encode(&reply)), to_hex(&earlier("seal_reply")));
    assert_eq!(decode(&earlier("seal_reply")), Ok(reply));
    for (noted, taken) in [(true, false), (false, true)] {
        let leave = Leave {
            noted,
            taken,
            ..sample::leave()
        };
        assert_eq!(decode(&encode(&leave)), Ok(leave));
    }
}

#[test]
fn signs_of_life_name_the_workers_where_they_are_said() {
    let mut alive = sample::alive();
    assert!(!String::from_utf8_lossy(&encode(&alive)).contains("workers"));
    alive.workers = vec![Incarnation(7)];
    assert_eq!(decode(&encode(&alive)), Ok(alive));
}

#[test]
fn reports_of_requests_tell_a_failure_where_one_ended_them() {
    let mut reports = sample::request_reports();
    assert!(!String::from_utf8_lossy(&encode(&reports)).contains("failure"));
    let place = ([0, 0, 0], [5, 0, 0]);
    let fault = KernelFault::new(FaultKind::Trap, "add", 34, place).because(&"x".repeat(4_000));
    let failure = Failure::new(Code::Trap, fault.to_string());
    reports.failure = failure.brief();
    assert_eq!(reports.failure.len(), limits::BRIEF_FAILURE_BYTES);
    let read: RequestReports = decode(&encode(&reports)).expect("it is read");
    assert_eq!(read, reports);
    assert_eq!(read.fault().map(|it| it.ptx_line()), Some(34));
}

#[test]
fn reports_of_requests_tell_calls_that_failed_where_some_did() {
    let mut reports = sample::request_reports();
    let without = encode(&reports);
    let error = |report, code, words: &str| CallError {
        report,
        at: 0x0102,
        count: 3,
        code,
        words: words.len() as u16,
    };
    reports.errors = vec![
        error(0, Code::Quota, "full"),
        error(1, Code::BadModule, "no PTX"),
    ];
    reports.words = "fullno PTX".to_owned();
    let bytes = encode(&reports);
    // A map of six fields becomes one of eight, and the others are as before.
    assert_eq!((without[0], bytes[0]), (0x86, 0x88));
    let (same, added) = bytes.split_at(without.len());
    assert_eq!(same[1..], without[1..]);
    let mut wanted = b"\xa6errors\xc4\x30".to_vec();
    for (report, code, words) in [(0, Code::Quota, 4), (1, Code::BadModule, 6)] {
        wanted.extend([report, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        wanted.extend([3, 0, 0, 0, code.number() as u8, 0, words, 0]);
    }
    wanted.extend(b"\xa5words\xaafullno PTX");
    assert_eq!(to_hex(added), to_hex(&wanted));
    assert_eq!(decode(&bytes), Ok(reports.clone()));
    let words = |reports: &RequestReports| -> Vec<String> {
        let told = reports.errors_in_words();
        told.map(|(error, words)| format!("{} {words}", error.code))
            .collect()
    };
    assert_eq!(
        words(&reports),
        ["E-MEMORY-QUOTA full", "E-MODULE-PTX no PTX"]
    );
    // A program may tell anything.
    reports.words = "full, é".to_owned();
    assert_eq!(words(&reports), ["E-MEMORY-QUOTA full", "E-MODULE-PTX "]);
}

#[test]
fn requests_for_memory_name_their_process_where_it_is_said() {
    let mut request = sample::memory_request();
    request.process = Some(sample::process());
    assert_eq!(decode(&encode(&request)), Ok(request));
    // An overlong name is cut, not refused.
    let mut bytes = encode(&request);
    let at = bytes.windows(6).position(|at| at == b"\xa5train");
    let long = [&[0xda, 0x10, 0x00][..], &[b'x'; 4_096]].concat();
    let at = at.expect("the name");
    bytes.splice(at..at + 6, long);
    request.process.as_mut().expect("one").name = ShortText::new(&"x".repeat(64));
    assert_eq!(decode(&bytes), Ok(request));
}

#[test]
fn usage_says_what_is_saved_only_where_something_is() {
    let mut usage = sample::usage();
    assert!(!String::from_utf8_lossy(&encode(&usage)).contains("saved"));
    usage.saved = 8 << 20;
    assert_eq!(decode(&encode(&usage)), Ok(usage));
}

#[test]
fn usage_blocks_of_before_reports_and_modules_name_none() {
    let mut block = sample::usage_block();
    block.reports = None;
    block.names[0].module = None;
    assert_eq!(to_hex(&encode(&block)), to_hex(&earlier("usage_block")));
    assert_eq!(decode(&earlier("usage_block")), Ok(block));
}

#[test]
fn a_status_from_before_caps_and_targets_names_none() {
    let mut status = sample::status();
    status.places.clear();
    for tenant in &mut status.tenants {
        tenant.settings.cap = 0;
        tenant.settings.slo_ns = 0;
        tenant.attainment = None;
    }
    assert_eq!(decode(&earlier("status")), Ok(status));
}

#[test]
fn settings_of_before_limits_have_none_until_defaults_are_given() {
    let mut status = sample::status();
    status.tenants[0].settings.addresses = 3 << 40;
    status.settings = Some(ClusterSettings {
        tenant_sessions: 7,
        ..ClusterSettings::default()
    });
    assert_eq!(decode(&encode(&status)), Ok(status));
    let mut old = decode::<Status>(&earlier("status")).expect("a status");
    let tenant = old.tenants.remove(0).settings;
    assert_eq!(tenant.addresses, 0);
    let none = ClusterSettings {
        tenant_sessions: 0,
        tenant_addresses: 0,
        tenant_modules: 0,
        tenant_staged: 0,
        ..ClusterSettings::default()
    };
    let limits = tenant.limits(&none);
    assert_eq!((limits.sessions, limits.addresses), (4, u64::MAX));
    let usual = tenant.limits(&none.with_limits());
    assert_eq!(usual.addresses, 8 << 40);
    assert_eq!((usual.modules, usual.staged), (4 << 30, 4 << 30));
}

#[test]
fn settings_name_how_tenants_are_made_only_where_it_is_set() {
    let mut status = sample::status();
    let named = |status: &Status| String::from_utf8_lossy(&encode(status)).contains("create_only");
    assert!(!named(&status));
    status.settings = Some(ClusterSettings {
        tenant_create_only: true,
        ..ClusterSettings::default()
    });
    assert!(named(&status));
    assert_eq!(decode(&encode(&status)), Ok(status));
}

#[test]
fn a_tenant_is_suspended_only_where_it_is_said() {
    let mut status = sample::status();
    assert!(!String::from_utf8_lossy(&encode(&status)).contains("suspended"));
    status.tenants[0].settings.suspended = true;
    assert_eq!(decode(&encode(&status)), Ok(status));
}

#[test]
fn a_request_for_sessions_names_only_what_is_asked() {
    let all = SessionsRequest {
        v: WIRE_VERSION,
        ..SessionsRequest::default()
    };
    assert_eq!(encode(&all), b"\x81\xa1v\x01");
    let one = SessionsRequest {
        session: Some(SessionId(7)),
        ..all
    };
    assert_eq!(decode(&encode(&one)), Ok(one));
}

#[test]
fn an_open_grant_has_its_limits_where_there_was_nothing() {
    let mut rows = Vec::new();
    let mut order = sample::order(&mut rows);
    let before = encode(&order);
    (order.opens[0].modules, order.opens[0].staged) = (Allowance::of(3 << 30), Allowance::of(1));
    let bytes = encode(&order);
    assert_eq!(
        bytes.len(),
        before.len(),
        "an older worker reads it as ever"
    );
    assert_eq!(decode(&bytes), Ok(order));
}

#[test]
fn a_status_names_lost_workers_only_where_there_are_any() {
    let mut status = sample::status();
    let before = encode(&status);
    let lost = LostWorker {
        incarnation: Incarnation(0x99aa_bbcc_ddee_ff01),
        gpu: Some(1),
        device: "cpu, 2 threads".into(),
        lost_for_ns: 5_000_000_000,
    };
    status.lost = vec![lost.clone()];
    let bytes = encode(&status);
    assert_eq!(decode(&bytes), Ok(status.clone()));
    // One more field, behind those that there were.
    let added = b"\xa4lost\x91\x84\xabincarnation\xcf\x99\xaa\xbb\xcc\xdd\xee\xff\x01\xa3gpu\x01\
        \xa6device\xaecpu, 2 threads\xablost_for_ns\xcf\x00\x00\x00\x01\x2a\x05\xf2\x00";
    assert_eq!(bytes[0], before[0] + 1);
    let expected = [&before[1..], &added[..]].concat();
    assert_eq!(to_hex(&bytes[1..]), to_hex(&expected));
    // All at once, just now, and of a leader that knows little of them.
    status.workers.clear();
    status.places.clear();
    status.lost = vec![
        LostWorker {
            gpu: None,
            device: String::new(),
            lost_for_ns: 0,
            ..lost
        };
        1_000
    ];
    assert_eq!(decode(&encode(&status)), Ok(status));
}

#[test]
fn a_status_of_a_thousand_quiet_tenants_is_read() {
    let mut status = sample::status();
    let quiet = TenantStatus {
        settings: TenantSettings::default(),
        attainment: None,
        ..status.tenants[0].clone()
    };
    status.tenants = vec![quiet; 1_000];
    assert_eq!(decode(&encode(&status)), Ok(status));
}

#[test]
fn what_sessions_are_placed_by_travels_where_it_is_said() {
    let group: Tenant = "rack-1".parse().expect("a name");
    let mut request = sample::open_request();
    request.devices = 3;
    assert_eq!(decode(&encode(&request)), Ok(request));
    let mut beat = sample::worker_beat();
    beat.group = Some(group.clone());
    (beat.exclusive, beat.held) = (true, 3 << 30);
    beat.images = Some(HeldImages(vec![(group.clone(), u64::MAX)]));
    beat.weights = Some(Weights(vec![WeightSample {
        tenant: group.clone(),
        fingerprint: u64::MAX,
        bytes: 3 << 30,
    }]));
    assert_eq!(decode(&encode(&beat)), Ok(beat));
    let mut status = sample::status();
    status.tenants[0].settings.groups = Groups::new([group]).expect("one");
    assert_eq!(decode(&encode(&status)), Ok(status));
    let first = sample::open_answer().devices().remove(0);
    let mut others = vec![first.clone(), first.clone(), first];
    (others[1].session, others[1].gpu) = (SessionId(7), 1);
    (others[2].session, others[2].properties) = (SessionId(8), None);
    let answer = OpenAnswer::of(&others);
    let read: OpenAnswer = decode(&encode(&answer)).expect("read");
    assert_eq!(read.devices(), others);
}

#[test]
fn a_property_that_is_not_named_keeps_its_default() {
    // {v: 1, opened: {.., properties: {sms: 2}}} is the form from a worker with few properties.
    let answer = sample::open_answer();
    let mut few = answer.clone();
    let opened = few.opened.as_mut().expect("opened");
    opened.properties = Some(DeviceProperties {
        sms: 2,
        ..DeviceProperties::default()
    });
    let mut bytes = encode(&answer);
    let at = bytes.windows(11).position(|at| at == b"\xaaproperties");
    let at = at.expect("the field") + 11;
    let end = bytes.len() - b"\xa7failure\xc0".len();
    bytes.splice(at..end, *b"\x81\xa3sms\x02");
    assert_eq!(decode(&bytes), Ok(few));
}

#[test]
fn uuids_differ_between_devices_and_clusters() {
    let [lab, den] = ["lab", "den"].map(|name| name.parse().expect("a name"));
    let uuids = [(&lab, 0), (&lab, 1), (&den, 0)].map(|(a, b)| DeviceProperties::uuid_of(a, b));
    assert_eq!(uuids[0], DeviceProperties::uuid_of(&lab, 0));
    assert!(uuids[0] != uuids[1] && uuids[0] != uuids[2] && uuids[1] != uuids[2]);
    // Version 8 and the variant of RFC 9562.
    assert_eq!((uuids[0][6] >> 4, uuids[0][8] >> 6), (8, 2));
}

#[test]
fn the_batch_holds_one_op_of_every_kind() {
    let columns = sample::columns();
    let batch = sample::batch(&columns);
    let read: Vec<_> = batch
        .ops()
        .expect("ops")
        .iter()
        .map(|one| (one.op, one.stream, one.payload.to_vec()))
        .collect();
    assert_eq!(read, sample::ops());
}

#[test]
fn ops_that_were_added_later_are_read_back() {
    let columns = sample::columns_of(sample::later_ops());
    let ops = sample::later_batch(&columns).ops().expect("ops");
    let read = ops
        .iter()
        .map(|one| (one.op, one.stream, one.payload.to_vec()));
    assert_eq!(read.collect::<Vec<_>>(), sample::later_ops());
}

#[test]
fn kernel_keys_are_what_the_wire_says() {
    let hash = ModuleHash::of(b".version 8.0");
    let function = FunctionFingerprint::new(&hash, "saxpy");
    let key = function.key([8, 1, 1], [128, 1, 1], 0);
    let worked = format!("{hash}\n{:016x}\n{key}\n", function.0);
    assert_eq!(worked, include_str!("golden/kernel_key.txt"));
}

#[test]
fn the_documentation_shows_these_bytes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(folder.join("../docs/reference/wire.md"))
        .expect("docs/reference/wire.md");
    let mut shown = 0;
    for entry in std::fs::read_dir(folder.join("tests/golden")).expect("the golden files") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a golden file");
        assert!(
            page.contains(&format!("```\n{text}```\n")),
            "{path:?} is not in docs/reference/wire.md"
        );
        shown += 1;
    }
    assert!(shown > 20, "{shown}");
}
