int8multirange(int8range(0, 9223372036854775807))
