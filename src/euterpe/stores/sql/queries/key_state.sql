j.state
