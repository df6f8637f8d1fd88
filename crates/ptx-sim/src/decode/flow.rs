//! Where the lanes of a divergent branch meet again: the immediate post-dominator of the branch.

use super::NONE;
use crate::execute::control::Control;
use crate::execute::{Instruction, Operation};

/// Sets `meet` of every branch to the first instruction that all paths from it share, or to `NONE` (they only share the exit).
pub(super) fn set_meeting_points(code: &mut [Instruction]) {
    let n = code.len();
    let mut leader = vec![false; n + 1];
    leader[0] = true;
    for (i, ins) in code.iter().enumerate() {
        match ins.op {
            Operation::Control(Control::Branch { target, .. }) => {
                leader[target as usize] = true;
                leader[i + 1] = true;
            }
            Operation::Control(Control::Exit) => leader[i + 1] = true,
            _ => {}
        }
    }
    let starts: Vec<usize> = (0..n).filter(|&i| leader[i]).collect();
    let mut block_of = vec![0usize; n + 1];
    let mut block = 0;
    for i in 0..n {
        if i > 0 && leader[i] {
            block += 1;
        }
        block_of[i] = block;
    }
    let count = starts.len();
    let exit = count;
    let last = |b: usize| if b + 1 < count { starts[b + 1] - 1 } else { n - 1 };
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for b in 0..count {
        let ins = &code[last(b)];
        let falls = if last(b) + 1 < n { block_of[last(b) + 1] } else { exit };
        let always = ins.guard == NONE;
        match ins.op {
            Operation::Control(Control::Branch { target, .. }) => {
                next[b].push(if (target as usize) < n { block_of[target as usize] } else { exit });
                if !always {
                    next[b].push(falls);
                }
            }
            Operation::Control(Control::Exit) => {
                next[b].push(exit);
                if !always {
                    next[b].push(falls);
                }
            }
            _ => next[b].push(falls),
        }
    }
    // Immediate dominators of the reversed graph (Cooper, Harvey and Kennedy), from the exit.
    let mut previous: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
    for (b, list) in next.iter().enumerate() {
        for &s in list {
            previous[s].push(b);
        }
    }
    let mut order = Vec::with_capacity(count + 1);
    let mut seen = vec![false; count + 1];
    let mut stack = vec![(exit, 0usize)];
    seen[exit] = true;
    while let Some((b, i)) = stack.pop() {
        if let Some(&p) = previous[b].get(i) {
            stack.push((b, i + 1));
            if !seen[p] {
                seen[p] = true;
                stack.push((p, 0));
            }
        } else {
            order.push(b);
        }
    }
    let mut number = vec![usize::MAX; count + 1];
    for (i, &b) in order.iter().enumerate() {
        number[b] = i;
    }
    let mut dominator = vec![usize::MAX; count + 1];
    dominator[exit] = exit;
    let mut changed = true;
    while changed {
        changed = false;
        for &b in order.iter().rev().skip(1) {
            let mut new = usize::MAX;
            for &s in &next[b] {
                if dominator[s] == usize::MAX {
                    continue;
                }
                new = if new == usize::MAX { s } else { meet(new, s, &dominator, &number) };
            }
            if new != dominator[b] {
                dominator[b] = new;
                changed = true;
            }
        }
    }
    for b in 0..count {
        let at = last(b);
        if let Operation::Control(Control::Branch { meet, .. }) = &mut code[at].op {
            let d = dominator[b];
            *meet = if d == usize::MAX || d == exit { NONE } else { starts[d] as u32 };
        }
    }
}

fn meet(mut a: usize, mut b: usize, dominator: &[usize], number: &[usize]) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = dominator[a];
        }
        while number[b] < number[a] {
            b = dominator[b];
        }
    }
    a
}
