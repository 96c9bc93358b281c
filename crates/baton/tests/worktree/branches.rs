//! Branches of tasks in the repository of a project.

use baton::worktree::{Error, Moved, task_branch};
use baton_domain::ids::TaskId;

use super::world::{DEPLOYMENT, World, deployment, kept, sh, tenant};

#[test]
fn a_branch_moves_only_from_where_it_was_believed_to_be() {
    let world = World::new();
    let project = world.project();
    let prepared = world.prepare(&project);
    let tree = prepared.worktree.path();
    let base = prepared.worktree.base().clone();
    let depot = prepared.worktree.depot().expect("it is there");
    let branch = task_branch(&deployment(DEPLOYMENT), &tenant(), TaskId(1));
    assert_eq!(branch, "refs/heads/baton/d-one/local.T-1");
    let known = std::slice::from_ref(&base);

    sh(&tree, "echo 1 >> b.txt && git commit -q -am 1");
    let first = kept(&prepared.worktree, 1).head;
    let moved = project.advance(&depot, &branch, None, &first, known).expect("it is made");
    assert_eq!(moved, Moved::Done);
    assert_eq!(sh(project.root(), &format!("git show {branch}:b.txt")), "two\n1");
    let again = project.advance(&depot, &branch, None, &first, known).expect("it is there");
    assert_eq!(again, Moved::Already);

    sh(&tree, "echo 2 >> b.txt && git commit -q -am 2");
    let second = kept(&prepared.worktree, 1).head;
    for believed in [None, Some(&base)] {
        let refused = project.advance(&depot, &branch, believed, &second, known);
        assert!(matches!(refused, Err(Error::BranchMoved { .. })), "{refused:?}");
    }
    sh(
        project.root(),
        &format!("git worktree add -q ../checkout {}", &branch["refs/heads/".len()..]),
    );
    let refused = project.advance(&depot, &branch, Some(&first), &second, known);
    assert!(matches!(refused, Err(Error::CheckedOut { .. })), "{refused:?}");
    assert_eq!(sh(project.root(), &format!("git rev-parse {branch}")), first.to_string());
    sh(project.root(), "git worktree remove ../checkout");
    project.advance(&depot, &branch, Some(&first), &second, known).expect("it moves");
    sh(project.root(), "git fsck --strict --no-dangling");
    // What is checked out in the project itself is not touched either.
    let refused = project.advance(&depot, "refs/heads/main", Some(&base), &second, known);
    assert!(matches!(refused, Err(Error::CheckedOut { .. })), "{refused:?}");
}

#[test]
fn of_two_who_move_a_branch_at_once_one_does() {
    let world = World::new();
    let project = world.project();
    let prepared = world.prepare(&project);
    let tree = prepared.worktree.path();
    let base = prepared.worktree.base().clone();
    let depot = prepared.worktree.depot().expect("it is there");
    let branch = task_branch(&deployment(DEPLOYMENT), &tenant(), TaskId(1));
    let mut heads = vec![];
    for name in ["x", "y"] {
        sh(&tree, &format!("git checkout -q --detach main && echo {name} > {name} && git add -A"));
        sh(&tree, &format!("git commit -q -m {name}"));
        heads.push(kept(&prepared.worktree, 1).head);
    }
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let move_to = |to| {
            let (project, depot, branch, base) = (&project, &depot, &branch, &base);
            scope.spawn(move || {
                project.advance(depot, branch, None, to, std::slice::from_ref(base)).is_ok()
            })
        };
        let threads: Vec<_> = heads.iter().map(move_to).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(outcomes.iter().filter(|moved| **moved).count(), 1, "{outcomes:?}");
}
