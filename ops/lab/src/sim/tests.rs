use clap::Parser;

use super::*;
use crate::LabCommand;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: LabCommand,
}

fn args(words: &[&str]) -> CompareArgs {
    let words = ["warploom", "sim", "compare"].iter().chain(words);
    match Line::try_parse_from(words).unwrap().command {
        LabCommand::Sim(SimCommand::Compare(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn model(name: &str, role: &str, arrivals: &str, kernel: &str) -> String {
    let kernels = vec![kernel; 30].join(", ");
    format!("name = \"{name}\"\nrole = \"{role}\"\narrivals = {arrivals}\nkernels = [{kernels}]\n")
}

#[test]
fn pairs_are_chosen_by_parts_of_their_names() {
    let models = models(1);
    let names = |wanted: &[&str]| -> Vec<String> {
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        let chosen = chosen(&models, &wanted).unwrap();
        chosen.iter().map(Pair::name).collect()
    };
    assert_eq!(names(&[]).len(), 12);
    assert_eq!(names(&["llm-decode+bert", "mobile"]).len(), 4);
    let nobody = chosen(&models, &["nobody".to_owned()]).unwrap_err();
    assert_eq!(warploom_cli::exit::code(&nobody), warploom_cli::exit::USAGE);
}

#[test]
fn schedulers_are_named_as_in_the_tables() {
    let policy = |name: &str| args(&["--timeline-policy", name]).timeline_policy;
    assert_eq!(policy("warploom"), sim_compare::Policy::Ours);
    assert_eq!(policy("XSched-like"), sim_compare::Policy::XSched);
    assert_eq!(policy("mps"), sim_compare::Policy::Mps);
    let words = ["warploom", "sim", "compare", "--timeline-policy", "best"];
    assert!(Line::try_parse_from(words).is_err());
}

#[test]
fn own_models_are_compared_and_the_timeline_says_the_same() {
    let dir = std::env::temp_dir().join(format!("warploom-sim-{}", std::process::id()));
    let (models, plots) = (dir.join("models"), dir.join("plots"));
    std::fs::create_dir_all(&models).unwrap();
    let poisson = "{ kind = \"poisson\", load = 0.4 }";
    let closed = "{ kind = \"closed\" }";
    let files = [
        model("chat", "latency", poisson, "[50000, 60, 30]"),
        model("train", "throughput", closed, "[150000, 40, 80]"),
    ];
    for (index, text) in files.iter().enumerate() {
        std::fs::write(models.join(format!("{index}.toml")), text).unwrap();
    }
    let args = args(&["--reps", "2", "--requests", "100"]);
    let chosen = chosen(&sim_compare::read_dir(&models).unwrap(), &args.pairs).unwrap();
    let mut told = 0;
    let comparison = Comparison::run(&chosen, &args, &mut || told += 1).unwrap();
    assert_eq!(told, runs::steps(&chosen, &args));
    let ours = &comparison.serial[0][0].shared[0];
    assert!(ours.p99_ratio > 0.9 && ours.throughput() > 1.0);
    let text = tables::all(&comparison, &args);
    assert!(
        text.contains("chat+train") && text.contains("XSched-like"),
        "{text}"
    );
    assert_eq!(plots::write(&plots, &comparison).unwrap(), 3);
    let plot = std::fs::read_to_string(plots.join("latency-chat+train.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("Orion-like"));

    let wanted = |metric: &str| metric.starts_with("hp_");
    let found = metrics::metrics(&comparison, &[], &args, &wanted, &mut || {}).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0].max.unwrap(),
        found[1].max.unwrap(),
        "one pair is its own worst"
    );
    let share = |metric: &str| metric == "share_error";
    let none = metrics::metrics(&comparison, &[], &args, &share, &mut || {}).unwrap_err();
    let none = none.to_string();
    assert!(none.starts_with("E-SIMULATION: share_error: "), "{none}");

    let path = dir.join("kernels.csv");
    write_timeline(&path, &chosen[0], &args).unwrap();
    let csv = std::fs::read_to_string(&path).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("tenant,request,kernel,ready,start,end"));
    let mut worked = 0;
    for line in lines {
        let (tenant, numbers) = line.split_once(',').unwrap();
        let numbers: Vec<u64> = numbers.split(',').map(|n| n.parse().unwrap()).collect();
        let took = numbers[4] - numbers[3];
        assert_eq!(took, if tenant == "chat" { 50_000 } else { 150_000 });
        let counted = numbers[4] > 2_500_000_000 && tenant == "train";
        worked += if counted { took } else { 0 };
    }
    // The other program alone works 150 of 160 us.
    let alone = comparison.serial[0][0].shared[0].effort;
    let measured = worked as f64 / alone / (150.0 / 160.0);
    assert!(measured > 0.9e9, "{measured}");
    std::fs::remove_dir_all(&dir).unwrap();
}
