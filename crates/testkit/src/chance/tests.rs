use super::Chance;

#[test]
fn equal_seeds_give_equal_sequences_and_others_do_not() {
    let draw = |seed| {
        let mut chance = Chance::new(seed);
        (0..8).map(|_| chance.next_u64()).collect::<Vec<_>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn below_reaches_every_number_and_none_beyond() {
    let mut chance = Chance::new(1);
    let mut seen = [0_u32; 5];
    for _ in 0..5_000 {
        seen[chance.index(5)] += 1;
    }
    assert!(seen.iter().all(|&count| (800..1_200).contains(&count)), "uneven: {seen:?}");
}

#[test]
fn chance_keeps_to_its_probability() {
    let mut chance = Chance::new(2);
    let yes = (0..10_000).filter(|_| chance.chance(0.25)).count();
    assert!((2_300..2_700).contains(&yes), "a quarter of 10000 is not {yes}");
    assert!((0..100).all(|_| chance.chance(1.0)), "what is certain happens");
    assert!((0..100).all(|_| !chance.chance(0.0)), "what is impossible does not");
}

#[test]
fn a_fork_shares_no_draw_with_its_parent() {
    let mut parent = Chance::new(3);
    let mut fork = parent.fork();
    let drawn: Vec<u64> = (0..1_000).map(|_| parent.next_u64()).collect();
    assert!((0..1_000).all(|_| !drawn.contains(&fork.next_u64())));
    assert!(drawn.contains(Chance::new(0).pick(&drawn)));
}
