"""The paper's real sets as OpenML keeps them."""

# Number of every set, since names and versions of OpenML change, and its columns, the
# target last: "theirs=ours", or one name that is ours in small letters.
OPENML = {
    "abalone": (
        183,
        """Sex Length Diameter Height Whole_weight Shucked_weight Viscera_weight
        Shell_weight Class_number_of_rings=rings""",
    ),
    "auto_mpg": (
        196,
        """cylinders displacement horsepower weight acceleration model=model_year origin
        class=mpg""",
    ),
    "baseball": (
        525,
        """number_of_times_at_bat_in_1986=at_bat number_of_hits_in_1986=hits
        number_of_home_runs_in_1986=home_runs number_of_runs_in_1986=runs
        number_of_runs_batted_in_in_1986=rbi number_of_walks_in_1986=walks
        number_of_years_in_the_major_leagues=years
        number_of_times_at_bat_during_his_career=career_at_bat
        number_of_hits_during_his_career=career_hits
        number_of_home_runs_during_his_career=career_home_runs
        number_of_runs_during_his_career=career_runs
        number_of_runs_batted_in_during_his_career=career_rbi
        number_of_walks_during_his_career=career_walks
        players_league_at_the_end_of_1986=league86
        players_division_at_the_end_of_1986=division86
        players_team_at_the_end_of_1986=team86 players_position(s)_in_1986=position86
        number_of_put_outs_in_1986=put_outs number_of_assists_in_1986=assists
        number_of_errors_in_1986=errors
        players_league_at_the_beginning_of_1987=league87
        players_team_at_the_beginning_of_1987=team87
        1987_annual_salary_on_opening_day_in_thousands_of_dollars=salary""",
    ),
    "boston": (531, "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV"),
    "kin8nm": (189, "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 y"),
    "stock": (223, " ".join(f"company{i}" for i in range(1, 11))),
    "ta": (
        48,
        """Whether_of_not_the_TA_is_a_native_English_speaker=native_speaker
        Course_instructor=instructor Course Summer_or_regular_semester=semester
        Class_size Class_attribute=score""",
    ),
    "tecator": (
        505,
        " ".join(f"principal_component_{i}=pc{i}" for i in range(1, 11)) + " fat",
    ),
}
# Columns of numbers that the paper takes as discrete, as it does all that are none.
DISCRETE = {
    "auto_mpg": {"cylinders", "model_year", "origin"},
    "boston": {"chas", "rad"},
    "ta": {"native_speaker", "instructor", "course", "semester"},
}
