j.state = 'running'
