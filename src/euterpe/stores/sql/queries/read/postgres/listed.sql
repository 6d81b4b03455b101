listed
