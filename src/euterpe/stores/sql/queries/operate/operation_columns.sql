CAST(o.id AS TEXT), o.ordered_by, o.requester_id, o.action, o.force, o.query, o.resolved, o.state, o.place, o.total,
    o.total_exact, o.done, o.dependents, o.skipped, o.failed, o.error, o.created_at, o.updated_at, o.completed_at,
    o.cause
