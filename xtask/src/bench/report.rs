//! Figures of runs, and how they are printed.

use crate::error::{Error, Result};

/// What one run took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of all processors.
    pub cpu: f64,
    /// Bytes of resident memory of the largest process.
    pub peak: f64,
}

/// Name, unit and value of each figure.
type Figure = (&'static str, &'static str, fn(&Figures) -> f64);

const FIGURES: [Figure; 3] = [
    ("wall", "s", |figures| figures.wall),
    ("cpu", "s", |figures| figures.cpu),
    ("peak", "MB", |figures| figures.peak / 1e6),
];

/// A line that the script printed: the side and its figures.
pub fn read(line: &str) -> Result<(String, Figures)> {
    let fields: Vec<_> = line.split('\t').collect();
    let wrong = || Error::Failed(format!("the measuring script printed `{line}`"));
    let [side, wall, cpu, peak] = fields[..] else { return Err(wrong()) };
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong);
    Ok((side.to_owned(), Figures { wall: number(wall)?, cpu: number(cpu)?, peak: number(peak)? }))
}

/// Runs of one model.
pub struct Row {
    model: String,
    tenon: Vec<Figures>,
    iree: Vec<Figures>,
}

/// Minimum and median.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    min: f64,
    median: f64,
}

impl Summary {
    fn of(mut values: Vec<f64>) -> Summary {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Summary { min: values[0], median }
    }
}

impl Row {
    /// Runs of a model in the order in which they were made; both sides must have run.
    pub fn new(model: String, runs: &[(String, Figures)]) -> Result<Row> {
        let of = |side: &str| -> Vec<_> {
            runs.iter().filter(|(name, _)| name == side).map(|(_, figures)| *figures).collect()
        };
        let (tenon, iree) = (of("tenon"), of("iree"));
        if tenon.is_empty() || iree.len() != tenon.len() {
            return Err(Error::Failed(format!("{model}: not all runs were made")));
        }
        Ok(Row { model, tenon, iree })
    }

    /// Both sides, and Tenon's share of IREE's: of the minima, and the median of the shares of neighbouring runs.
    fn summary(&self, value: fn(&Figures) -> f64) -> (Summary, Summary, Summary) {
        let values = |runs: &[Figures]| runs.iter().map(value).collect::<Vec<_>>();
        let (tenon, iree) = (Summary::of(values(&self.tenon)), Summary::of(values(&self.iree)));
        let pairs = self.tenon.iter().zip(&self.iree).map(|(tenon, iree)| value(tenon) / value(iree));
        let share = Summary { min: tenon.min / iree.min, median: Summary::of(pairs.collect()).median };
        (tenon, iree, share)
    }
}

/// A table for people.
pub fn table(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{:<14} {:<10} {:>19} {:>19} {:>19}",
        "", "", "tenon min/median", "IREE min/median", "share min/median"
    )];
    for row in rows {
        for (index, (name, unit, value)) in FIGURES.into_iter().enumerate() {
            let (tenon, iree, share) = row.summary(value);
            let pair =
                |summary: Summary, digits: usize| format!("{:>9.digits$} {:>9.digits$}", summary.min, summary.median);
            let digits = if unit == "s" { 2 } else { 0 };
            let model = if index == 0 { row.model.as_str() } else { "" };
            let figure = format!("{name}, {unit}");
            lines.push(format!(
                "{model:<14} {figure:<10} {} {} {}",
                pair(tenon, digits),
                pair(iree, digits),
                pair(share, 3)
            ));
        }
    }
    lines.join("\n")
}

/// The same for machines: every run, and the shares.
pub fn json(rows: &[Row]) -> String {
    let list = |values: Vec<String>| format!("[{}]", values.join(", "));
    let models = rows.iter().map(|row| {
        let side = |runs: &[Figures]| {
            list(
                runs.iter()
                    .map(|run| {
                        format!(
                            "{{\"wall_s\": {:.4}, \"cpu_s\": {:.4}, \"peak_bytes\": {:.0}}}",
                            run.wall, run.cpu, run.peak
                        )
                    })
                    .collect(),
            )
        };
        let shares: Vec<_> = FIGURES
            .into_iter()
            .map(|(name, _, value)| {
                let (.., share) = row.summary(value);
                format!("\"{name}\": {{\"min\": {:.4}, \"median\": {:.4}}}", share.min, share.median)
            })
            .collect();
        format!(
            "  {{\"model\": \"{}\",\n   \"tenon\": {},\n   \"iree\": {},\n   \"share\": {{{}}}}}",
            row.model.replace(['"', '\\'], "_"),
            side(&row.tenon),
            side(&row.iree),
            shares.join(", ")
        )
    });
    format!("[\n{}\n]", models.collect::<Vec<_>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn run(side: &str, wall: f64) -> (String, Figures) {
        (side.to_owned(), Figures { wall, cpu: 2.0 * wall, peak: 1e6 * wall })
    }

    fn row() -> Row {
        let runs = [
            run("tenon", 1.0),
            run("iree", 4.0),
            run("tenon", 3.0),
            run("iree", 6.0),
            run("tenon", 2.0),
            run("iree", 10.0),
        ];
        Row::new("m".to_owned(), &runs).unwrap()
    }

    #[test]
    fn shares_are_of_neighbouring_runs() {
        // 1/4, 3/6, 2/10: the median is 1/4; the minima are 1 and 4.
        let (tenon, iree, share) = row().summary(|figures| figures.wall);
        assert_eq!(tenon, Summary { min: 1.0, median: 2.0 });
        assert_eq!(iree, Summary { min: 4.0, median: 6.0 });
        assert_eq!(share, Summary { min: 0.25, median: 0.25 });
        assert_eq!(Summary::of(vec![4.0, 1.0]), Summary { min: 1.0, median: 2.5 });
    }

    #[test]
    fn both_sides_must_have_run() {
        assert!(Row::new("m".to_owned(), &[]).is_err());
        assert!(Row::new("m".to_owned(), &[run("tenon", 1.0)]).is_err());
    }

    #[test]
    fn lines_of_the_script_are_read_or_refused() {
        let figures = Figures { wall: 1.5, cpu: 2.0, peak: 1024.0 };
        assert_eq!(read("iree\t1.5\t2.0\t1024").unwrap(), ("iree".to_owned(), figures));
        assert!(
            read("iree\t1.5\t2.0").is_err() && read("iree\tx\t2.0\t1").is_err() && read("iree\tNaN\t2\t1").is_err()
        );
    }

    #[test]
    fn json_is_json() {
        let value: serde_json::Value = serde_json::from_str(&json(&[row(), row()])).unwrap();
        assert_eq!(value[1]["share"]["wall"]["median"], 0.25);
        assert_eq!(value[0]["iree"][2]["peak_bytes"], 10_000_000);
        assert!(table(&[row()]).lines().count() == 4);
    }
}
