//! Whole answers: what a host sees of the classifier.

use super::*;
use chela_sdk::Context;

fn conversation(texts: &[&str], participants: &[&str], tags: &[&str]) -> Conversation {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    Conversation { texts: owned(texts), participants: owned(participants), tags: owned(tags) }
}

fn ask(config: &str, keys: &[&str], conversations: Vec<Conversation>) -> Vec<Classification> {
    let rules = Rules::configure(config).expect("a good configuration");
    let request = CategoriesRequest {
        context: Context { now_ms: 0, seed: 0, deployment: String::new(), locale: "ko".into(), budget_ms: 50 },
        categories: keys.iter().map(|key| (*key).to_owned()).collect(),
        conversations,
        attrs: Vec::new(),
    };
    rules.categories(request).expect("an answer")
}

fn answer(config: &str, keys: &[&str], text: &str) -> Classification {
    ask(config, keys, vec![conversation(&[text], &[], &[])]).remove(0)
}

fn check(config: &str, keys: &[&str], text: &str, expected: Option<&str>) {
    let answer = answer(config, keys, text);
    assert_eq!(answer.primary.as_deref(), expected, "{text}: {answer:?}");
    assert!((0.0..=1.0).contains(&answer.confidence), "{answer:?}");
}

const OWN: &str = r#"{
    "extends": "none", "learned": false,
    "rules": [
        { "category": "release", "weight": 2, "keywords": ["배포"], "subTag": "ship" },
        { "category": "release", "weight": -2, "keywords": ["뉴스레터 배포"] },
        { "category": "press", "weight": 1.5, "keywords": ["뉴스레터"], "patterns": ["issue #[0-9]+"] }
    ]
}"#;

#[test]
fn a_deployment_that_broke_something_is_operations() {
    let answer = answer("{}", &CATEGORIES, "배포 후 장애 대응이 필요합니다");
    assert_eq!(answer.primary.as_deref(), Some("infra_ops"), "{answer:?}");
    assert!(answer.confidence >= 0.6, "{answer:?}");
    assert_eq!(answer.source, Source::Rule);
    assert_eq!(answer.sub_tags, ["incident", "deploy"]);
    assert!(answer.reason.starts_with("배포 후 장애, 장애 대응; learned 0."), "{}", answer.reason);
}

#[test]
fn each_category_has_its_words_in_both_languages() {
    for (text, expected) in [
        ("결제 모듈을 리팩토링하고 PR 올렸어요", "engineering_build"),
        ("Refactored the parser, the pull request is up for code review", "engineering_build"),
        ("Error rate above 12% since the deploy, rolling back the pods now", "infra_ops"),
        ("회귀 테스트 결과 42건 중 40건 통과했습니다", "qa_validation"),
        ("Regression suite on the release candidate: 3 failed, repro steps attached", "qa_validation"),
        ("다음 스프린트 우선순위를 정합시다. 로그인을 먼저 할지 결정이 필요해요", "planning_decision"),
        ("We have to decide the scope: go with option B and defer the export to the next sprint", "planning_decision"),
        ("가입률이 왜 떨어졌는지 원인 분석 부탁드려요. 데이터로 비교해 주세요", "research_analysis"),
        ("Compare the three vector databases, findings with pros and cons please", "research_analysis"),
        ("온보딩 가이드 문서를 업데이트하고 위키에 정리했습니다", "docs_knowledge"),
        ("Updated the README and wrote release notes plus a how-to guide", "docs_knowledge"),
        ("봄 캠페인 광고 소재 A/B 테스트, 클릭률이 더 높은 카피로 갑니다", "growth_marketing"),
        ("Newsletter subject line test: variant B lifted the open rate, launch the campaign", "growth_marketing"),
        ("환불 문의하신 고객님께 사과드리고 안내드렸습니다", "customer_community"),
        ("The customer is angry about the refund, replied to her support ticket and apologised", "customer_community"),
        ("개인정보 처리방침 개정에 대한 법무팀 검토가 필요합니다", "legal_compliance"),
        ("Legal review of the GDPR data processing clause in the vendor contract", "legal_compliance"),
        ("3분기 매출 KPI와 시장 진출 사업 전략을 경영진에게 보고합니다", "biz_strategy"),
        ("Board deck: revenue, gross margin and the market entry strategy for next year", "biz_strategy"),
    ] {
        check("{}", &CATEGORIES, text, Some(expected));
    }
}

#[test]
fn nothing_is_claimed_of_greetings_and_silence() {
    for text in ["", "  \n", "안녕하세요!", "hello", "ㅋㅋㅋㅋ", "ok thanks", "네 감사합니다 :)", "👍"]
    {
        check("{}", &CATEGORIES, text, None);
    }
    let silent = ask("{}", &CATEGORIES, vec![conversation(&[], &[], &[])]).remove(0);
    assert_eq!((silent.primary, silent.confidence, silent.reason.as_str()), (None, 0.0, "nothing to go by"));
}

#[test]
fn own_rules_answer_own_categories() {
    check(OWN, &["release", "press"], "오늘 배포합니다", Some("release"));
    check(OWN, &["release", "press"], "see issue #12", Some("press"));
    check(OWN, &["release", "press"], "점심 먹을까요", None);
}

#[test]
fn a_negative_weight_speaks_against() {
    check(OWN, &["release", "press"], "뉴스레터 배포합니다", Some("press"));
    check("{}", &CATEGORIES, "이번 주 뉴스레터 배포했습니다. 구독자 반응은 내일 공유할게요", Some("growth_marketing"));
}

#[test]
fn an_own_rule_of_weight_outranks_what_is_learned() {
    let config = r#"{ "rules": [{ "category": "security", "weight": 8, "keywords": ["취약점"] }] }"#;
    let mut keys = CATEGORIES.to_vec();
    keys.push("security");
    check(config, &keys, "배포 후 장애 대응 중에 취약점이 발견됐습니다", Some("security"));
    check(config, &keys, "배포 후 장애 대응이 필요합니다", Some("infra_ops"));
}

#[test]
fn a_category_outside_the_table_is_never_answered() {
    check("{}", &["docs_knowledge", "mine"], "배포 후 장애 대응이 필요합니다", None);
    check("{}", &["mine"], "배포 후 장애 대응이 필요합니다", None);
    check("{}", &[], "배포 후 장애 대응이 필요합니다", None);
    check(OWN, &["press"], "오늘 배포합니다", None);
}

#[test]
fn below_the_claim_the_closest_is_named() {
    let answer = answer(r#"{ "claimAt": 1 }"#, &CATEGORIES, "배포 후 장애 대응이 필요합니다");
    assert_eq!((answer.primary, answer.secondary.len(), answer.sub_tags.len()), (None, 0, 0));
    assert!(answer.reason.starts_with("closest: infra_ops 0."), "{}", answer.reason);
}

#[test]
fn answers_keep_the_order_of_conversations_and_their_limits() {
    let many = "장애 배포 온콜 환경변수 쿠버네티스 ".repeat(2_000);
    let talks = vec![conversation(&["안녕"], &[], &[]), conversation(&[&many], &["sre-1"], &["장애 대응"])];
    let answers = ask("{}", &CATEGORIES, talks);
    assert_eq!(answers[0].primary, None);
    assert_eq!(answers[1].primary.as_deref(), Some("infra_ops"));
    assert!(answers[1].sub_tags.len() <= 8 && answers[1].secondary.len() <= 3);
    let tags: std::collections::HashSet<_> = answers[1].sub_tags.iter().collect();
    assert_eq!(tags.len(), answers[1].sub_tags.len());
}

#[test]
fn the_same_question_has_the_same_answer() {
    let text = "Rolled back the deploy, refund requests are coming in, who writes the postmortem?";
    let first = format!("{:?}", answer("{}", &CATEGORIES, text));
    for _ in 0..3 {
        assert_eq!(format!("{:?}", answer("{}", &CATEGORIES, text)), first);
    }
}

#[test]
fn the_weights_are_those_of_a_training() {
    assert!(Model::from_bytes(WEIGHTS).is_some());
}

/// What the README promises: of claims at least 85 in 100 right, and a claim for at least 40 in 100.
#[test]
fn conversations_that_no_rule_was_made_from_are_classified_as_promised() {
    let (mut claims, mut right, mut with_category) = (0, 0, 0);
    let items = include_str!("../corpus/held-out.ndjson")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON"));
    for item in items {
        let strings = |key: &str| -> Vec<String> { serde_json::from_value(item[key].clone()).expect("strings") };
        let (texts, participants, tags) = (strings("texts"), strings("participants"), strings("tags"));
        let given = Conversation { texts, participants, tags };
        let answer = ask("{}", &CATEGORIES, vec![given]).remove(0);
        with_category += u32::from(item["category"].is_string());
        claims += u32::from(answer.primary.is_some());
        right += u32::from(answer.primary.is_some() && answer.primary.as_deref() == item["category"].as_str());
    }
    assert!(right * 100 >= claims * 85, "{right} of {claims} claims are right");
    assert!(claims * 100 >= with_category * 40, "{claims} claims for {with_category} conversations");
}
