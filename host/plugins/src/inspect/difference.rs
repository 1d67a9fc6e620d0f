//! The first difference between two WIT interfaces, in words: which function, which type, which field.

use wit_parser::{InterfaceId, Resolve, Type, TypeDefKind};

/// An interface, or a type, with the package set it lives in.
type In<'a, T> = (&'a Resolve, T);

/// Recursion ends here; no type of ours is that deep.
const DEPTH_MAX: usize = 32;

/// How `theirs` differs from `ours`; none when every function has the same type.
pub(super) fn between(theirs: In<'_, InterfaceId>, ours: In<'_, InterfaceId>) -> Option<String> {
    let (their_functions, our_functions) =
        (&theirs.0.interfaces[theirs.1].functions, &ours.0.interfaces[ours.1].functions);
    for (name, ours_is) in our_functions {
        let Some(theirs_is) = their_functions.get(name) else {
            return Some(format!("the function `{name}` is missing"));
        };
        if theirs_is.params.len() != ours_is.params.len() {
            let (has, wants) = (theirs_is.params.len(), ours_is.params.len());
            return Some(format!("the function `{name}` has {has} parameters instead of {wants}"));
        }
        let params = theirs_is.params.iter().zip(&ours_is.params);
        for (their_param, our_param) in params {
            let place = format!("`{name}`, parameter `{}`", our_param.name);
            let found = types((theirs.0, Some(their_param.ty)), (ours.0, Some(our_param.ty)), &place, 0);
            if found.is_some() {
                return found;
            }
        }
        let place = format!("`{name}`, result");
        let found = types((theirs.0, theirs_is.result), (ours.0, ours_is.result), &place, 0);
        if found.is_some() {
            return found;
        }
    }
    let extra = their_functions.keys().find(|name| !our_functions.contains_key(*name));
    extra.map(|name| format!("the function `{name}` is not known"))
}

fn types(theirs: In<'_, Option<Type>>, ours: In<'_, Option<Type>>, place: &str, depth: usize) -> Option<String> {
    let differs = |theirs: &str, ours: &str| Some(format!("{place}: {theirs} instead of {ours}"));
    let (theirs, ours) = match (theirs, ours) {
        ((_, None), (_, None)) => return None,
        ((_, None), (_, Some(_))) => return differs("nothing", "a value"),
        ((_, Some(_)), (_, None)) => return differs("a value", "nothing"),
        ((their_set, Some(their_type)), (our_set, Some(our_type))) => {
            (resolved(their_set, their_type), resolved(our_set, our_type))
        }
    };
    if depth > DEPTH_MAX {
        return differs("a type too deep to compare", "one of ours");
    }
    let below = |their_type: Option<Type>, our_type: Option<Type>, name: &str| {
        types((theirs.0, their_type), (ours.0, our_type), &format!("{place}, {name}"), depth + 1)
    };
    let (Type::Id(their_id), Type::Id(our_id)) = (theirs.1, ours.1) else {
        return if theirs.1 == ours.1 { None } else { differs(&name(theirs), &name(ours)) };
    };
    match (&theirs.0.types[their_id].kind, &ours.0.types[our_id].kind) {
        (TypeDefKind::Record(their_record), TypeDefKind::Record(our_record)) => {
            let their_names = their_record.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>();
            let our_names = our_record.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>();
            words(place, "field", &their_names, &our_names).or_else(|| {
                let mut pairs = their_record.fields.iter().zip(&our_record.fields);
                pairs.find_map(|(their, our)| below(Some(their.ty), Some(our.ty), &format!("field `{}`", our.name)))
            })
        }
        (TypeDefKind::Variant(their_variant), TypeDefKind::Variant(our_variant)) => {
            let their_names = their_variant.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>();
            let our_names = our_variant.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>();
            words(place, "case", &their_names, &our_names).or_else(|| {
                let mut pairs = their_variant.cases.iter().zip(&our_variant.cases);
                pairs.find_map(|(their, our)| below(their.ty, our.ty, &format!("case `{}`", our.name)))
            })
        }
        (TypeDefKind::Enum(their_enum), TypeDefKind::Enum(our_enum)) => {
            let their_names = their_enum.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>();
            let our_names = our_enum.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>();
            words(place, "case", &their_names, &our_names)
        }
        (TypeDefKind::Option(their), TypeDefKind::Option(our)) => below(Some(*their), Some(*our), "option"),
        (TypeDefKind::List(their), TypeDefKind::List(our)) => below(Some(*their), Some(*our), "element"),
        (TypeDefKind::Result(their), TypeDefKind::Result(our)) => {
            below(their.ok, our.ok, "ok").or_else(|| below(their.err, our.err, "error"))
        }
        (TypeDefKind::Tuple(their), TypeDefKind::Tuple(our)) if their.types.len() == our.types.len() => {
            let mut pairs = their.types.iter().zip(&our.types);
            pairs.find_map(|(their, our)| below(Some(*their), Some(*our), "part"))
        }
        _ => differs(&name(theirs), &name(ours)),
    }
}

/// The first name at which two lists part.
fn words(place: &str, kind: &str, theirs: &[&str], ours: &[&str]) -> Option<String> {
    if theirs == ours {
        return None;
    }
    if let Some(missing) = ours.iter().find(|name| !theirs.contains(name)) {
        return Some(format!("{place}: the {kind} `{missing}` is missing"));
    }
    if let Some(extra) = theirs.iter().find(|name| !ours.contains(name)) {
        return Some(format!("{place}: the {kind} `{extra}` is not known"));
    }
    Some(format!("{place}: its {kind}s are in another order"))
}

/// Follows names to what they stand for.
fn resolved(set: &Resolve, mut of: Type) -> In<'_, Type> {
    for _ in 0..DEPTH_MAX {
        match of {
            Type::Id(id) => match set.types[id].kind {
                TypeDefKind::Type(next) => of = next,
                _ => break,
            },
            _ => break,
        }
    }
    (set, of)
}

fn name((set, of): In<'_, Type>) -> String {
    match of {
        Type::Id(id) => {
            let definition = &set.types[id];
            let kind = definition.kind.as_str();
            definition.name.as_ref().map_or(kind.to_owned(), |name| format!("{kind} `{name}`"))
        }
        other => format!("{other:?}").to_lowercase(),
    }
}
