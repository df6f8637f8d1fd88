//! Every row of the instruction table for every architecture, against ptxas: what the table grants assembles, what it denies is
//! refused. Where ptxas is not installed, this is skipped with a note.

use crate::{fits, installed};
use tenon_target::{Architecture, Instructions, Probe, Ptxas, TargetError};

/// What is wrong with the table for an architecture.
///
/// All granted instructions make one module, all denied ones another, of which ptxas names the lines that it refuses. It may stop at
/// the first line that is bad beyond that, so what it is silent about is assembled once more, alone.
fn wrong(ptxas: &Ptxas, architecture: &Architecture) -> Vec<String> {
    let alone = |probe: &Probe<'_>| {
        let (ptx, _) = Probe::module(architecture, std::slice::from_ref(probe));
        ptxas.assemble(&ptx, architecture)
    };
    let probes = Instructions::table().probes();
    let (granted, denied): (Vec<_>, Vec<_>) = probes.partition(|probe| probe.requirements.check(architecture).is_ok());
    let mut wrong = Vec::new();
    let (ptx, _) = Probe::module(architecture, &granted);
    match ptxas.assemble(&ptx, architecture) {
        Ok(assembly) => assert_eq!(assembly.kernels.len(), granted.len()),
        Err(_) => {
            let refused = granted.iter().filter_map(|probe| Some((probe.name, alone(probe).err()?)));
            wrong.extend(refused.map(|(name, error)| format!("{name} is granted, but {error}")));
        }
    }
    let (ptx, lines) = Probe::module(architecture, &denied);
    let refused: Vec<u32> = match ptxas.assemble(&ptx, architecture) {
        Ok(_) if denied.is_empty() => return wrong,
        Ok(_) => Vec::new(),
        Err(TargetError::PtxRefused { messages, .. }) => messages.iter().filter_map(|message| message.line).collect(),
        Err(error) => panic!("{error}"),
    };
    let silent = denied.iter().zip(lines).filter(|(_, line)| !refused.contains(line));
    for (probe, _) in silent {
        match alone(probe) {
            Err(TargetError::PtxRefused { .. }) => {}
            Ok(_) => wrong.push(format!("{} is denied, but ptxas takes it", probe.name)),
            Err(error) => panic!("{error}"),
        }
    }
    wrong
}

#[test]
fn the_table_grants_what_ptxas_takes_and_denies_what_it_refuses() {
    let Some(ptxas) = installed(Ptxas::locate()) else { return };
    let fitting = Architecture::all().iter().filter(|architecture| fits(&ptxas, architecture));
    let found: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            fitting.map(|architecture| scope.spawn(|| (architecture.name, wrong(&ptxas, architecture)))).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.flat_map(|(name, wrong)| wrong.into_iter().map(move |problem| format!("{name}: {problem}"))).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A row that is denied wrongly, and one that is granted wrongly, are seen.
#[test]
fn a_wrong_row_would_be_seen() {
    let Some(ptxas) = installed(Ptxas::locate()) else { return };
    let architecture = Architecture::find("sm_75").unwrap();
    if !fits(&ptxas, architecture) {
        return;
    }
    let assembles = |name: &str| {
        let probe = Instructions::table().probes().find(|probe| probe.name == name).unwrap();
        ptxas.assemble(&Probe::module(architecture, &[probe]).0, architecture).is_ok()
    };
    assert!(assembles("ldmatrix.x4") && !assembles("cp.async.cg.16"));
}
